"""Pages and files that are made of the code: commands, settings, examples.

``python -m secor.cli.reference_page DIRECTORY`` writes them into a checkout.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from secor.cli.exit_codes import Exit
from secor.cli.main import cli
from secor.config.examples import EXAMPLES, comment
from secor.config.reference import KINDS, SettingDescription, sections, settings

HEAD = """\
# Commands

`scripts/format` writes this page from the commands; `secor COMMAND --help` shows the same.

"""

EXITS = {
    Exit.OK: "done",
    Exit.ERROR: "unexpected error",
    Exit.CONFIGURATION: "wrong command line or configuration",
    Exit.DENIED: "access denied, or the bucket is missing",
    Exit.UNAVAILABLE: "a server is unavailable",
    Exit.DIFFERENT: (
        "differences found, a partition is stopped, the group is running where it must not, or "
        "something is left to do"
    ),
    Exit.INTERRUPTED: "interrupted",
    Exit.PIPE_CLOSED: "the reader of the output has closed it",
}


HEAD_OF_SETTINGS = """\
# Settings

`scripts/format` writes this page from the settings' own texts; `secor config explain KEY` prints
them, and `secor config example --full config/backup.toml` a file with every key.

| type | how to write a value |
|---|---|
| size | bytes, or text such as `"64MiB"`, `"1.5GiB"`, `"10MB"` |
| duration | seconds, or text such as `"500ms"`, `"5m"`, `"1h30m"` |
| `"none"` | no value |
| array of texts, of `host:port` | `["a", "b"]`, or a text with commas: `"a,b"` |
| regular expression | it must match the whole name or value; RE2 has no look-around |

- Environment variables override the file: `SECOR_STORE__S3__BUCKET` sets `store.s3.bucket`. Put
  passwords there.
- In texts of the file `${NAME}` and `${NAME:-default}` are variables, too; `$${NAME}` is the
  text `${NAME}` itself.
- `secor config check FILE` reports all faults at once, `secor config show FILE` prints every value
  and where it came from.
- Groups: `backup`, `partition` and `table` are values of `group.kind`; `restore` is the job file of
  'secor restore'.
"""


def markdown() -> str:
    """Return the page of commands."""
    context = click.Context(cli, info_name="secor")
    parts = [HEAD, "| exit code | meaning |\n|---|---|\n"]
    parts += [f"| {code.value} | {meaning} |\n" for code, meaning in EXITS.items()]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts += _command(command, click.Context(command, info_name=name, parent=context), 2)
    return "".join(parts)


def _command(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"\n{'#' * depth} {context.command_path}\n"
    yield f"\n    {context.command_path} {usage}\n"
    for paragraph in _paragraphs(command.help):
        yield f"\n{paragraph}\n"
    options = [option for option in command.params if isinstance(option, click.Option)]
    if options:
        yield "\n| option | meaning |\n|---|---|\n"
        for option in options:
            yield _option(option, context)
    if command.epilog is not None:
        for example in _examples(command.epilog):
            yield f"\n{example}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, click.Context(below, info_name=name, parent=context), 3)


def _paragraphs(text: str | None) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", cleandoc(text or "")):
        # Click's marker for "do not wrap this paragraph".
        if paragraph.startswith("\b"):
            yield "\n".join(f"    {line}" for line in paragraph.splitlines()[1:])
        else:
            yield _plain(" ".join(paragraph.split()))


def _option(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    names, meaning = record if record is not None else (option.opts[0], "")
    shown = names.replace("|", r"\|")
    return f"| `{shown}` | {_plain(' '.join(meaning.split()))} |\n"


def _examples(epilog: str) -> Iterator[str]:
    for line in cleandoc(epilog).removeprefix("\b\n").splitlines():
        word, _, example = line.partition(": ")
        yield f"{word}: `{example}`" if word == "Example" else _plain(line)


def _plain(text: str) -> str:
    """Keep words from being read as markup."""
    return re.sub(r"([\\|*<\[\]])", r"\\\1", text)


def settings_markdown() -> str:
    """Return the page of settings: a table for each section."""
    parts = [HEAD_OF_SETTINGS]
    section = ""
    texts = sections()
    for setting in settings():
        if not setting.section:
            continue
        if setting.section != section:
            section = setting.section
            title = f"[{section}]" if setting.variable else f"[[{section}]]"
            parts.append(f"\n## {_plain(title)}\n\n{_linked(texts[section])}\n\n")
            parts.append("| key | type | default | groups | meaning |\n|---|---|---|---|---|\n")
        parts.append(_setting(setting))
    return "".join(parts)


def _setting(setting: SettingDescription) -> str:
    name = setting.key.rpartition(".")[2]
    groups = "all" if set(setting.kinds) == set(KINDS) else ", ".join(setting.kinds)
    defaults = [f"{kind}: {_code(text)}" for kind, text in setting.default.items()]
    default = ", ".join(text.removeprefix(": ") for text in defaults) or "required"
    meaning = _linked(setting.description)
    lists_values = setting.type.startswith(("`", "true"))
    if setting.examples and not lists_values:
        shown = " or ".join(_code(setting.toml(example)) for example in setting.examples)
        meaning += f" Example: {shown}"
    return f"| {' | '.join((f'`{name}`', setting.type, default, groups, meaning))} |\n"


def _linked(text: str) -> str:
    return re.sub(r"docs/(\w+\.md)", r"[\1](\1)", _plain(text))


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


ABOUT_EXAMPLE = """\
# Keys that are absent have defaults.  docs/configuration.md has all keys; secor config explain KEY
# explains one, secor config example --full {name}.toml prints this file with every key.
# Environment variables override the file: SECOR_STORE__S3__BUCKET sets store.s3.bucket.  Put
# passwords there.
"""
_KEY = re.compile(r"(?P<off>#?)(?P<name>[a-z_0-9]+) = (?P<value>.*)")


def example(name: str) -> str:
    """Return the text of an example: its keys, each with a comment."""
    kind = tomllib.loads(EXAMPLES[name])["group"]["kind"]
    texts = {setting.key: setting.description for setting in settings() if kind in setting.kinds}
    section = ""
    commented = False  # by the line before
    explained: set[str] = set()
    lines: list[str] = []
    for line in EXAMPLES[name].replace("NAME.toml", f"{name}.toml").splitlines():
        match = _KEY.fullmatch(line)
        if line.startswith("["):
            section = line.strip("[]")
        if match is not None:
            key = f"{section}.{match['name']}"
            if not commented and key not in explained:
                lines += comment(texts[key].split(". ")[0].rstrip(".") + ".")
            explained.add(key)
        commented = line.startswith("#") and match is None
        lines.append(line)
    head = lines.index("")
    about = ABOUT_EXAMPLE.replace("{name}", name).splitlines()
    return "\n".join([*lines[:head], "#", *about, *lines[head:]]) + "\n"


def generated() -> dict[str, str]:
    """Return the text of each file that is made of the code, by its path in a checkout."""
    pages = {"docs/cli.md": markdown(), "docs/configuration.md": settings_markdown()}
    return pages | {f"config/{name}.toml": example(name) for name in EXAMPLES}


if __name__ == "__main__":
    for path, text in generated().items():
        Path(sys.argv[1], path).write_text(text)
