"""The reference of a command, made from its parser: `{command} words count`."""

from sphinx.util.docutils import SphinxDirective

from command_markdown import markdown, parsers


class Command(SphinxDirective):
    """`{command}` with the name of a command."""

    required_arguments = 0
    optional_arguments = 1
    final_argument_whitespace = True

    def run(self):  # noqa: D102
        name = " ".join(self.arguments)
        known = parsers()
        if name not in known:
            raise self.error(f"there is no command {name!r}; there are {', '.join(known)}")
        return self.parse_text_to_nodes(markdown(known[name]))


def setup(app):
    """Register with Sphinx."""
    app.add_directive("command", Command)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
