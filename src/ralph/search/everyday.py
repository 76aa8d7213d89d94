"""English words that people put around what they mean.

A question names its subject with few words and surrounds it with many: use, make, need, want, way, thing. In a
small store such a word may occur nowhere or once, and would then look as telling as the subject itself. It
counts less here, whatever the store's own counts say. The list is of general English (auxiliaries, verbs of
asking and doing, pronouns, words of time and degree), written down once and not fitted to any data set.
"""

WORDS = frozenset(
    (
        "about above according across actual actually add after again against ago all allow almost along already also "
        "although always am among another any anybody anyone anything anyway apart appear around ask away back bad "
        "based basically because become been before began begin behind being believe below best better between big "
        "both bring call came care case cause certain certainly change come common consider could couple current "
        "currently day deal decide decided describe detail different doing done down during each easy either else "
        "end enough especially etc even ever every everybody everyone everything exactly example except exist expect "
        "explain fact far feel few finally find fine first following found full further gave general get give given "
        "go goes going gone good got great guess had happen hard hardly having he hear hello help her here hers him "
        "his hold hope however idea important indeed inside instead involve issue itself just keep kind knew know "
        "known large last late lately later least leave left less let like likely little long look lot made main "
        "make many matter may maybe mean meant mention might mind mine more most mostly much must myself name near "
        "nearly necessary need neither never new next nice nobody none nor normal normally nothing notice now number "
        "often oh ok okay old once one only open other others otherwise ought ours out outside over own part "
        "particular past people perhaps person place please plenty point possible possibly pretty previous probably "
        "problem project put quick quickly quite rather reach real really reason recent recently recommend regarding "
        "related remember remind right said same saw say see seem seen several shall she short should show similar "
        "simple simply since small some somebody someone something sometimes somewhere soon sort special specific "
        "start still stop such suggest sure take taken talk tell than thank thanks thing think though thought "
        "three through thus time today together told tomorrow too took toward tried true try turn two under until up "
        "upon use used useful user using usual usually various very via want way week well went whatever whenever "
        "whether while whole whom whose within without word work world would wrong yeah year yes yesterday yet"
    ).split()
)
