"""Figures of the structure, of a small tree whose figures are counted by hand."""

from pathlib import Path

from tools.figures import figures, read_modules, single_importers

FILES = {
    "__init__.py": '"""A package."""\n',
    "loop.py": (
        '"""The loop."""\n'
        "\n"
        "from house import (\n"
        "    door,\n"
        ")\n"
        "\n"
        "# The order matters: the door is closed last.\n"
        "it = door.Door()  # beside code: no line of its own\n"
    ),
    "door.py": '"""What closes."""\n\n\nclass Door:\n    def turn(self, at: int) -> None: ...\n',
    "rooms/door.py": '"""Another door."""\n\n\nclass Door: ...\n',
}


def test_each_figure_counts_what_it_names(tmp_path: Path) -> None:
    house = tmp_path / "house"
    for name, text in FILES.items():
        path = house / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    modules = read_modules(house)
    values = dict(figures(modules))
    assert values["modules (without front pages), median lines"] == "3, 5"
    assert values["lines in all"] == "18"
    assert values["modules below 60 lines"] == "3"
    assert values["lines that are imports"] == "16.67%"
    assert values["lines that are comments"] == "5.56%"
    assert values["variables called it"] == "1"
    assert values["variables called at"] == "1"
    assert values["variables called found"] == "0"
    assert values["class names with two meanings or more"] == "1"
    assert next(value for label, value in values.items() if "begins with" in label) == "1"
    assert single_importers(modules) == {"house.door": "house.loop"}


def test_comments_do_not_make_a_module_large(tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    code, comments = '"""A room."""\n' + "door = 1\n" * 399, "# Why.\n" * 9
    (house / "room.py").write_text(comments + code)
    (house / "hall.py").write_text(code + "door = 1\n")
    values = dict(figures(read_modules(house)))
    assert values["modules above 400 lines without comments"] == "1"
