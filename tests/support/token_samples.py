"""Texts of every class that memories are made of, written for `test_tokens.py`; some are generated."""

import hashlib
import json

PROSE = """\
The build was green on Friday and red on Monday, although nobody had touched the code in between. We blamed
the cache first, because we always blame the cache first, and cleared it twice before anybody looked at the
clock. The certificate of the internal mirror had run out on Sunday night; every download failed, and the
installer quietly fell back to an older package that no longer matched our lock file. Writing this down took
two minutes. Finding it had taken three people most of a morning, and the same thing had happened a year
before to somebody who has since left the company.

That is the whole argument for keeping notes next to the work. People remember stories, not facts, and they
take the stories with them when they go. A short note with a date, a cause and a command survives all of us.
It does not have to be elegant. It has to be found at the right moment by someone who is in a hurry, tired,
and quite sure that the problem must be somewhere else. Good notes are humble: they say what was seen, what
was tried, and what finally helped; they leave the theory to the reader. When a note turns out to be wrong,
correct it or throw it away, since two notes that contradict each other are worse than none at all.

Should every failure be recorded? No. Most of them are expected: a test that is red because its feature has
not been written yet, a typo, a network that was down for a minute. What deserves a place is the surprise that
cost more than ten minutes and is likely to come back. I'd rather read thirty careful sentences than three
thousand generated ones, and so would the machine that has to fit them into its limited window.
"""

PYTHON = '''\
"""Retry a call with growing pauses, and give up with the last error."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backoff:
    first_delay: float = 0.25
    factor: float = 2.0
    max_attempts: int = 5
    retry_on: tuple[type[Exception], ...] = field(default=(ConnectionError, TimeoutError))

    def delays(self) -> list[float]:
        return [self.first_delay * self.factor**n for n in range(self.max_attempts - 1)]


async def call_with_retry(func: Callable[[], Awaitable[T]], policy: Backoff | None = None) -> T:
    """Await func() until it succeeds; other exceptions pass through at once."""
    policy = policy or Backoff()
    last_error: Exception | None = None
    for attempt, delay in enumerate([0.0, *policy.delays()], start=1):
        if delay:
            await asyncio.sleep(delay)
        try:
            return await func()
        except policy.retry_on as error:
            last_error = error
            log.warning("attempt %d of %d failed: %s", attempt, policy.max_attempts, error)
    if last_error is None:
        raise RuntimeError("max_attempts must be at least 1")
    raise last_error


def group_by_owner(rows: list[dict[str, str]]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for row in rows:
        if not row.get("owner") or row["state"] == "archived":
            continue
        owners.setdefault(row["owner"].strip().lower(), []).append(row["name"])
    return {name: sorted(set(items)) for name, items in sorted(owners.items())}
'''

TYPESCRIPT = """\
import { readFile } from "node:fs/promises";
import type { Logger, SessionStore } from "./types";

export interface CartItem {
  sku: string;
  quantity: number;
  unitPrice: number;
  note?: string | null;
}

type Discount = { kind: "percent"; value: number } | { kind: "fixed"; cents: number };

const DEFAULT_CURRENCY = "EUR";

export class Cart {
  private readonly items = new Map<string, CartItem>();

  constructor(private readonly store: SessionStore, private readonly logger: Logger) {}

  async load(sessionId: string): Promise<void> {
    const saved = await this.store.get(`cart:${sessionId}`);
    if (!saved) {
      this.logger.debug("no cart yet", { sessionId });
      return;
    }
    for (const item of JSON.parse(saved) as CartItem[]) {
      this.items.set(item.sku, { ...item, quantity: Math.max(1, item.quantity) });
    }
  }

  total(discounts: Discount[] = []): number {
    const sum = [...this.items.values()].reduce((acc, item) => acc + item.quantity * item.unitPrice, 0);
    return discounts.reduce((rest, d) => {
      return d.kind === "percent" ? rest * (1 - d.value / 100) : rest - d.cents;
    }, sum);
  }

  toJSON() {
    return { currency: DEFAULT_CURRENCY, items: Array.from(this.items.values()), total: this.total() };
  }
}

export async function readTemplate(path: string, values: Record<string, string>): Promise<string> {
  const template = await readFile(path, "utf8");
  return template.replace(/\\{\\{(\\w+)\\}\\}/g, (_match, key: string) => values[key] ?? "");
}
"""

RUST = """\
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, RwLock};

/// A small cache that forgets the entry that was not used for the longest time.
pub struct Lru<K, V> {
    capacity: usize,
    tick: u64,
    slots: HashMap<K, (u64, V)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CacheError {
    ZeroCapacity,
    Poisoned(String),
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheError::ZeroCapacity => write!(f, "capacity must be at least 1"),
            CacheError::Poisoned(who) => write!(f, "lock poisoned by {who}"),
        }
    }
}

impl<K: Eq + std::hash::Hash + Clone, V> Lru<K, V> {
    pub fn new(capacity: usize) -> Result<Self, CacheError> {
        if capacity == 0 {
            return Err(CacheError::ZeroCapacity);
        }
        Ok(Self { capacity, tick: 0, slots: HashMap::with_capacity(capacity) })
    }

    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.tick += 1;
        let now = self.tick;
        self.slots.get_mut(key).map(|slot| {
            slot.0 = now;
            &slot.1
        })
    }

    pub fn insert(&mut self, key: K, value: V) {
        if self.slots.len() >= self.capacity && !self.slots.contains_key(&key) {
            let oldest = self.slots.iter().min_by_key(|(_, slot)| slot.0).map(|(k, _)| k.clone());
            if let Some(k) = oldest {
                self.slots.remove(&k);
            }
        }
        self.tick += 1;
        self.slots.insert(key, (self.tick, value));
    }
}

pub type Shared<K, V> = Arc<RwLock<Lru<K, V>>>;
"""

KOREAN = """\
배포가 금요일에는 잘 되다가 월요일 아침에 갑자기 실패했습니다. 아무도 코드를 고치지 않았기 때문에 우리는
먼저 캐시를 의심했고, 두 번이나 비운 다음에야 인증서가 만료되었다는 사실을 알았습니다. 내부 저장소의
인증서는 일 년마다 새로 발급받아야 하며, 만료되기 이 주 전에 담당자에게 알림이 가도록 설정해 두었습니다.

결제 모듈은 외부 서비스에 직접 연결하지 않고 반드시 대기열을 거쳐야 합니다. 응답이 늦어지면 같은 요청이
두 번 처리될 수 있으므로, 모든 요청에는 고유한 번호를 붙이고 서버에서 중복을 확인합니다. 이 규칙을
어기면 고객에게 요금이 두 번 청구되는 사고가 생깁니다. 실제로 지난봄에 그런 일이 있었습니다.

데이터베이스를 바꿀 때에는 먼저 새 열을 추가하고, 두 버전의 프로그램이 함께 동작하는지 확인한 뒤에 옛
열을 지웁니다. 한 번에 바꾸면 배포하는 동안 오류가 납니다. 테스트가 느리다고 느껴지면 병렬로 실행하되,
파일을 함께 쓰는 검사는 따로 묶어 주세요. 기록은 짧게 쓰고, 왜 그렇게 했는지 이유를 꼭 남깁니다. 다음
사람이 같은 문제로 시간을 낭비하지 않도록 하는 것이 목적입니다. 비밀번호나 토큰은 절대로 적지 않습니다.

회의에서는 세 가지를 정했습니다. 첫째, 화면에 보이는 모든 문장은 번역 파일에서 가져옵니다. 둘째, 날짜와
시간은 서버에서 항상 표준시로 저장하고 보여 줄 때만 지역 시간으로 바꿉니다. 셋째, 오류 메시지에는 무엇이
잘못되었는지, 어디에서 일어났는지, 그리고 사용자가 다음에 무엇을 하면 되는지를 함께 적습니다.
"""

CHINESE = """\
星期五构建还是正常的，星期一早上却突然失败了，而这期间没有任何人修改过代码。我们首先怀疑缓存，清理了两次
之后才发现，内部镜像的证书已经过期。所有下载都失败了，安装程序悄悄退回到一个旧版本，结果与锁定文件不一致。
写下这段记录只花了两分钟，而找到原因却用了三个人大半个上午的时间。

支付模块不能直接调用外部服务，必须经过消息队列。如果响应太慢，同一个请求可能会被处理两次，所以每个请求都
要带上唯一的编号，由服务器检查是否重复。去年春天我们就因为忽略了这条规则，向客户重复收取了费用。

修改数据库结构时，应当先增加新的字段，确认新旧两个版本的程序可以同时运行，然后再删除旧的字段。测试太慢的
时候可以并行执行，但是共用同一个文件的测试要放在同一组里。记录要简短，并且说明原因，这样下一个人就不会在
同样的问题上浪费时间。密码和令牌绝对不要写进去。

会议决定了三件事：第一，界面上的所有文字都从翻译文件中读取；第二，日期和时间在服务器上一律保存为标准时间，
只有在显示的时候才转换成当地时间；第三，错误信息要说明出了什么问题、发生在哪里，以及用户接下来应该怎么做。
"""

JAPANESE = """\
金曜日には問題なく動いていたビルドが、月曜日の朝になって急に失敗するようになりました。その間、誰もコード
を変更していません。まずキャッシュを疑って二回も消しましたが、原因は社内ミラーの証明書の期限切れでした。
ダウンロードがすべて失敗し、インストーラーが黙って古いパッケージに戻っていたのです。このメモを書くのは二
分で済みましたが、原因を見つけるまでには三人で午前中のほとんどを使いました。

決済モジュールから外部サービスを直接呼び出してはいけません。必ずキューを通してください。応答が遅れると同
じリクエストが二度処理されることがあるため、すべてのリクエストに固有の番号を付け、サーバー側で重複を確認
します。

データベースを変更するときは、まず新しい列を追加し、新旧のプログラムが同時に動くことを確かめてから、古い
列を削除します。テストが遅いと感じたら並列で実行できますが、同じファイルを使うテストは一つのグループにま
とめてください。記録は短く、理由を必ず書きます。次の人が同じ問題で時間を無駄にしないためです。パスワード
やトークンは絶対に書きません。
"""

FRENCH = """\
Vendredi, la compilation réussissait encore ; lundi matin, elle échouait, alors que personne n'avait
touché au code entre-temps. Nous avons d'abord accusé le cache, comme d'habitude, et nous l'avons vidé
deux fois avant de regarder la date : le certificat du miroir interne avait expiré pendant la nuit. Tous
les téléchargements échouaient, et l'installateur revenait discrètement à une version plus ancienne qui
ne correspondait plus au fichier de verrouillage. Écrire cette note a pris deux minutes ; trouver la
cause avait occupé trois personnes pendant presque toute la matinée.

Le module de paiement ne doit jamais appeler directement le service externe : il passe toujours par la
file d'attente. Si la réponse tarde, la même requête peut être traitée deux fois ; chaque requête porte
donc un numéro unique, et le serveur vérifie les doublons. Pour modifier la base de données, on ajoute
d'abord la nouvelle colonne, on s'assure que les deux versions fonctionnent ensemble, puis on supprime
l'ancienne. Les mots de passe et les jetons n'ont rien à faire ici.

La réunion a décidé trois choses. Premièrement, toutes les phrases affichées à l'écran viennent du
fichier de traduction. Deuxièmement, le serveur enregistre les dates en temps universel et ne les
convertit qu'au moment de les montrer. Troisièmement, un message d'erreur dit ce qui s'est passé, où, et
ce que l'utilisateur peut faire.
"""

GERMAN = """\
Am Freitag lief der Build noch durch, am Montagmorgen schlug er fehl, obwohl in der Zwischenzeit niemand
den Code angefasst hatte. Wir haben zuerst den Zwischenspeicher verdächtigt, wie immer, und ihn zweimal
geleert, bevor jemand auf das Datum schaute: Das Zertifikat des internen Spiegelservers war in der Nacht
abgelaufen. Alle Downloads scheiterten, und das Installationsprogramm wich stillschweigend auf eine
ältere Fassung aus, die nicht mehr zur Sperrdatei passte. Diese Notiz zu schreiben dauerte zwei Minuten;
die Ursache zu finden hatte drei Leute fast den ganzen Vormittag gekostet.

Das Zahlungsmodul darf den externen Dienst niemals unmittelbar aufrufen, sondern geht immer über die
Warteschlange. Wenn die Antwort ausbleibt, könnte dieselbe Anfrage doppelt verarbeitet werden; deshalb
trägt jede Anfrage eine eindeutige Nummer, und der Server prüft auf Wiederholungen. Bei Änderungen an
der Datenbank wird zuerst die neue Spalte angelegt, dann geprüft, ob beide Programmversionen
nebeneinander funktionieren, und erst danach die alte gelöscht. Passwörter und Zugangsschlüssel gehören
nicht hierher.

Die Besprechung hat drei Dinge beschlossen. Erstens kommen alle sichtbaren Texte aus der
Übersetzungsdatei. Zweitens speichert der Server Zeitangaben ausschließlich in Weltzeit und rechnet sie
erst bei der Anzeige um. Drittens sagt jede Fehlermeldung, was geschehen ist, an welcher Stelle, und was
man als Nächstes tun sollte.
"""

TRADITIONAL = """\
我們在星期五的建置還是正常的，星期一早上卻突然失敗，而這段期間沒有任何人修改過程式碼。我們首先懷疑快取，
清除了兩次之後才發現內部鏡像的憑證已經過期。

支付模組不能直接呼叫外部服務，必須經過訊息佇列。如果回應太慢，同一個請求可能會被處理兩次，所以每個請求都
要帶上唯一的編號，由伺服器檢查是否重複。修改資料庫結構時，應該先增加新的欄位，確認新舊兩個版本的程式可以
同時執行，然後再刪除舊的欄位。測試太慢的時候可以平行執行，但是共用同一個檔案的測試要放在同一組裡。記錄要
簡短，並且說明原因，這樣下一個人就不會在同樣的問題上浪費時間。密碼和權杖絕對不要寫進去。
"""

RUSSIAN = """\
В пятницу сборка ещё проходила, а в понедельник утром вдруг перестала, хотя никто за это время не менял
код. Сначала мы заподозрили кэш и дважды его очистили, прежде чем кто-то посмотрел на дату: ночью истёк
срок сертификата внутреннего зеркала. Все загрузки завершались ошибкой, и установщик незаметно
возвращался к старой версии, которая больше не соответствовала файлу блокировки. Чтобы записать это,
хватило двух минут, а на поиски причины ушло почти всё утро.

Модуль оплаты никогда не обращается к внешней службе напрямую, запросы всегда идут через очередь. Если
ответ задерживается, один и тот же запрос может быть обработан дважды, поэтому у каждого запроса есть
свой номер, и сервер проверяет повторы. Пароли и ключи здесь не хранятся. При изменении базы данных
сначала добавляют новый столбец, затем проверяют, что обе версии программы работают вместе, и только
после этого удаляют старый.
"""

EMOJI = """\
🚀 Release 2.4 is out! 🎉 Thanks to everybody who tested it 🙏
✅ login works again, ✅ exports are fast, ❌ dark mode still flickers 😅
⚠️ Do not deploy on Friday 🔥🔥🔥 we learned that the hard way 😭
💡 Idea: show a 🔒 next to private notes and a 👀 next to shared ones
📝 TODO: docs 📚, tests 🧪, changelog 📦, and then ☕ for the whole team
🐛 Fixed: the counter jumped back to zero 🙂 when the page was reloaded 🔄
👍👍 from design, 🤔 from legal, 🚫 from security until the 🔑 rotation is done
✨ New: reactions 👏 💯 🎯 in comments, and a 🌙 theme for late nights
📈 Signups are up 12% 🥳 but churn 📉 is not where we want it; more on Thursday 🗓️
🧹 Cleanup week: remove old flags 🏁, archive boards 🗂️, close stale tickets 🎫
❤️ Shout-out to the night shift 🦉 for keeping the lights on 💡 during the outage ⛈️
🛠️ Maintenance on Sunday ⏰ 06:00, expect a few minutes of ⏳ and maybe a 500 or two 🙈
"""

TEXTS = [line.strip() for line in PROSE.replace("\n\n", " ").split(". ") if line.strip()]


def _digest(number: int) -> str:
    return hashlib.sha256(str(number).encode("ascii")).hexdigest()


def _rows() -> list[dict[str, object]]:
    return [
        {
            "id": f"mem-{1769300000 + 7919 * n}-{_digest(n)[:4]}",
            "kind": ("fix", "pattern", "decision")[n % 3],
            "text": text[:120],
            "tags": ["build", "cache", "ci"][: n % 4],
            "score": round(0.97 - n / 37, 4),
            "origin": {"session": None, "iteration": n, "ok": n % 2 == 0},
            "created_at": f"2026-01-{n + 1:02}T08:15:00Z",
        }
        for n, text in enumerate(TEXTS)
    ]


def _memories() -> str:
    blocks = (
        f"### {row['id']}\n> {str(row['text']).replace(', ', chr(10) + '> ', 1)}\n"
        f"<!-- tags: build, area-{number} | created: 2026-01-{number + 1:02} -->\n"
        for number, row in enumerate(_rows())
    )
    return "# Memories\n\n## Fixes\n\n" + "\n".join(blocks)


def _addresses() -> str:
    places = (
        "src/db/schema.ts",
        "tests/unit/test_login_form.py",
        "lib/http/client.rs",
        "docs/adr/0007-queue.md",
    )
    lines = []
    for n in range(24):
        digest, place = _digest(n), places[n % 4]
        lines += [
            f"https://git.example.com/team/shop/blob/main/{place}#L{n * 13 + 1}",
            f"/home/dev/projects/shop/{place}:{n * 7 + 3}",
            f"commit {digest[:40]}",
            f"see {digest[8:16]}-{digest[16:20]}-4{digest[21:24]}-a{digest[25:28]}-{digest[28:40]} in {place}",
            f"https://api.example.org/v2/orders?page={n}&limit=50&sort=created_at&cursor={digest[:12]}",
        ]
    return "\n".join(lines)


def _log() -> str:
    lines = []
    for n, text in enumerate(TEXTS):
        clock = f"{8 + n // 60:02}:{n % 60:02}:{n * 7 % 60:02}"
        lines += [
            f"2026-02-03T{clock}.{n * 37 % 1000:03}Z INFO  [worker-{n % 4}] {text[:70].lower()}",
            f"2026-02-03 {clock},{n:03} ERROR shop.payment.queue: request {_digest(n)[:8]} "
            f"failed after {n * 31}ms (attempt {n % 3 + 1}/3)",
            f'10.0.{n}.17 - - [03/Feb/2026:{clock} +0000] "GET /api/orders/{n * 911} HTTP/1.1" 200 {n * 1733}',
            f"FAILED tests/test_orders.py::test_total_{n} - AssertionError: assert {n * 3} == {n * 3 + 1}",
        ]
    return "\n".join(lines)


SAMPLES: dict[str, str] = {
    "English prose": PROSE,
    "Python": PYTHON,
    "TypeScript": TYPESCRIPT,
    "Rust": RUST,
    "JSON, compact": json.dumps(_rows(), separators=(",", ":")),
    "JSON, indented": json.dumps(_rows(), indent=2),
    "JSON, Korean": json.dumps(KOREAN.split(". "), ensure_ascii=False, indent=2),
    "memory blocks": _memories(),
    "Korean": KOREAN,
    "Chinese": CHINESE,
    "Chinese, traditional": TRADITIONAL,
    "Japanese": JAPANESE,
    "French": FRENCH,
    "German": GERMAN,
    "Russian": RUSSIAN,
    "emoji": EMOJI,
    "URLs, paths, ids": _addresses(),
    "logs": _log(),
}
