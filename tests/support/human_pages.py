"""Pages of memories that people wrote by hand."""

HUMAN = """# Memories

What we know, by hand and by machine.   Two  spaces and a trailing one \n
<!-- An example, not an entry:
### mem-1700000000-aaaa
> in a comment
-->

## Patterns

### mem-1705751400-a3f8
> Handlers return values, they never print.
> Also: `## Fixes` in a text is no section.
<!-- tags: style, api | created: 2025-01-20 -->



Some prose between two entries.

### mem-1705751401-b001

> Set off by blank lines, as formatters do it.

<!-- tags: | created: 2025-01-20 | source: 회의록 -->

## Decisions

```markdown
## Fixes

### mem-1700000001-bbbb
> in a fence
```

## Fixes

### mem-1705751402-c0de
> Without metadata.

## Context

## Glossary

- **index**: what can be built again

### mem-1705751403-d00d
> In a section of somebody's own.
<!-- tags: words | created: 2025-01-21 -->

The end, without a line end."""

ODD = "\ufeff" + HUMAN.replace("Two  spaces", "caf\udce9").replace("\n", "\r\n") + "\r\n"
