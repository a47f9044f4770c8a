"""Figures of the code's structure: ``scripts/check --figures``.

What they are for: modules should be chapters of 100 to 300 lines, say why in comments, and use
names that somebody guesses who knows Kafka, S3 and Spark. Compare the figures before and after a
change of the structure.
"""

from __future__ import annotations

import ast
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "secor"
SMALL = 60
"""Lines below which a module needs a reason to be one."""

LARGE = 400
"""Lines that no module exceeds; comments do not count, so that none is left out for its length."""

QUESTION_WORDS = ("What", "Whether", "Who", "Whose", "How", "Of", "To", "Where", "When")
VAGUE_NAMES = ("it", "at", "one", "found", "told", "held", "some", "mine")


@dataclass
class Module:
    """One source file, with the counts that the figures are made of."""

    name: str
    lines: int
    import_lines: int
    comment_lines: int
    docstring: str
    classes: list[str] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    vague_variables: Counter[str] = field(default_factory=Counter)

    @property
    def package(self) -> str:
        """The dotted name of the folder that the module is in."""
        return self.name.rpartition(".")[0]


def main() -> None:
    """Print the figures of the package as a table."""
    modules = read_modules(Path(PACKAGE))
    for label, value in figures(modules):
        print(f"{label:<62} {value:>16}")


def read_modules(root: Path) -> list[Module]:
    """Read all modules below a folder, sorted by path; front pages (``__init__``) included."""
    return [_module(path, root) for path in sorted(root.rglob("*.py"))]


def figures(modules: Sequence[Module]) -> Iterator[tuple[str, str]]:
    """Yield label and value of each figure."""
    chapters = [module for module in modules if not module.name.endswith("__init__")]
    sizes = [module.lines for module in chapters]
    total = sum(module.lines for module in modules)
    yield "modules (without front pages), median lines", f"{len(sizes)}, {_median(sizes)}"
    yield "lines in all", f"{total:,}"
    yield f"modules below {SMALL} lines", str(sum(size < SMALL for size in sizes))
    large = [module for module in chapters if module.lines - module.comment_lines > LARGE]
    yield f"modules above {LARGE} lines without comments", str(len(large))
    yield "modules with one importer, in their own folder", str(len(single_importers(chapters)))
    yield "lines that are imports", _share(sum(m.import_lines for m in modules), total)
    yield "lines that are comments", _share(sum(m.comment_lines for m in modules), total)
    questions = [m for m in chapters if m.docstring.partition(" ")[0] in QUESTION_WORDS]
    yield f"modules whose first line begins with {', '.join(QUESTION_WORDS)}", str(len(questions))
    names = vague_variables(modules)
    for name in VAGUE_NAMES:
        yield f"variables called {name}", str(names[name])
    yield "class names with two meanings or more", str(len(repeated_classes(modules)))


def vague_variables(modules: Sequence[Module]) -> Counter[str]:
    """Return how many variables and parameters have each name."""
    return sum((module.vague_variables for module in modules), Counter())


def repeated_classes(modules: Sequence[Module]) -> dict[str, list[str]]:
    """Return names that public classes of several modules have, with these modules."""
    owners: dict[str, list[str]] = {}
    for module in modules:
        for name in module.classes:
            if not name.startswith("_"):
                owners.setdefault(name, []).append(module.name)
    return {name: names for name, names in owners.items() if len(names) > 1}


def single_importers(modules: Sequence[Module]) -> dict[str, str]:
    """Return modules that only one other module imports, of the same folder, with that one."""
    importers: dict[str, set[str]] = {module.name: set() for module in modules}
    for module in modules:
        for imported in module.imports & importers.keys():
            importers[imported].add(module.name)
    packages = {module.name: module.package for module in modules}
    return {
        name: next(iter(users))
        for name, users in importers.items()
        if len(users) == 1 and packages[next(iter(users))] == packages[name]
    }


def _module(path: Path, root: Path) -> Module:
    text = path.read_text()
    tree = ast.parse(text)
    dotted = ".".join((root.name, *path.relative_to(root).with_suffix("").parts))
    module = Module(
        name=dotted,
        lines=len(text.splitlines()),
        import_lines=_import_lines(tree),
        comment_lines=_comment_lines(path),
        docstring=ast.get_docstring(tree) or "",
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            module.classes.append(node.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module.imports.add(node.module)
            module.imports.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            module.vague_variables[node.id] += 1
        elif isinstance(node, ast.arg):
            module.vague_variables[node.arg] += 1
    return module


def _import_lines(tree: ast.Module) -> int:
    """Return how many lines import statements take, wherever they are."""
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def _comment_lines(path: Path) -> int:
    """Return how many lines are comments alone; directives of tools are none."""
    with path.open("rb") as file:
        return sum(
            token.line.strip().startswith("#") and not token.string.startswith("# type:")
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.COMMENT
        )


def _median(sizes: Sequence[int]) -> int:
    return int(statistics.median(sizes)) if sizes else 0


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "-"


if __name__ == "__main__":
    main()
