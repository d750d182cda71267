"""Help of a command whose options stand in groups."""

from typing import Any

from typer.core import TyperCommand


class Grouped(TyperCommand):
    """A command whose help has a section for each panel that its options name."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, the options without a panel, and those of each panel."""
        sections: dict[str, list[Any]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            usual = "Arguments" if param.param_type_name == "argument" else "Options"
            panel = getattr(param, "rich_help_panel", None) or usual
            sections.setdefault(panel, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
