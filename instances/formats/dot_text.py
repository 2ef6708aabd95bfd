"""The DOT language (https://graphviz.org/doc/info/lang.html): quoting, and parsing to a networkx digraph.

All of the grammar is read: subgraphs, edge chains and groups, defaults, ports, comments, HTML strings.
The parser is our own because pydot takes 2 ms a statement (45 s for a graph of 5000 ops), drops line
numbers and refuses attributes called ``name``, and because ``networkx.nx_pydot`` leaves out subgraphs and
defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ...models.errors import InstanceError
from .strict_json import show

if TYPE_CHECKING:
    import networkx as nx

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
_UNESCAPED = {escape[1]: char for char, escape in _ESCAPES.items()} | {"\n": ""}

_TOKEN = re.compile(
    r"""(?P<skip> \s+ | //[^\n]* | /\*.*?\*/ | ^\#[^\n]* )
      | (?P<quoted> "(?:[^"\\]|\\.)*" )
      | (?P<arrow> -> | -- )
      | (?P<id> [^\W\d]\w* | -?(?:\.\d+|\d+(?:\.\d*)?) )
      | (?P<html> < )
      | (?P<sign> [{}\[\];,=:+] )""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_KEYWORDS = ("node", "edge", "graph", "digraph", "subgraph", "strict")


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int


def quoted(text: str) -> str:
    """Return the text as a quoted DOT string."""
    return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'


def parse_dot(text: str, where: str) -> nx.MultiDiGraph[str]:
    """Return the digraph that a DOT text states, nodes in the order in which they first appear.

    Attributes are strings. The defaults of ``node [...]`` and ``edge [...]`` hold for what follows them
    in their subgraph; ports are left out.

    Raises
    ------
    InstanceError
        If the text is no DOT, has several graphs, or the graph is undirected; with line and column.
    """
    try:
        return _Parser(text, where).graph()
    except RecursionError:
        raise InstanceError(f"{where}: found subgraphs nested too deeply, expected fewer") from None


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str, where: str) -> None:
        import networkx as nx

        self.text = text
        self.where = where
        self.tokens = list(self._tokens())
        self.position = 0
        self.edge_key: int | None = None  # A strict digraph has one edge at most between two nodes.
        self.result: nx.MultiDiGraph[str] = nx.MultiDiGraph()

    def _tokens(self) -> Iterator[_Token]:
        offset = 0
        while offset < len(self.text):
            match = _TOKEN.match(self.text, offset)
            kind = match.lastgroup if match else None
            if match is None or kind is None:
                raise self._error(show(self.text[offset]), "DOT", offset)
            end = self._end_of_html(offset) if kind == "html" else match.end()
            if kind != "skip":
                yield _Token(kind, self.text[offset:end], offset)
            offset = end
        yield _Token("end", "the end of the file", len(self.text))

    def _end_of_html(self, offset: int) -> int:
        depth = 0
        for match in re.compile("[<>]").finditer(self.text, offset):
            depth += 1 if match[0] == "<" else -1
            if depth == 0:
                return match.end()
        raise self._error("an open '<'", "a '>' that closes it", offset)

    def _error(self, found: str, expected: str, offset: int) -> InstanceError:
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        return InstanceError(
            f"{self.where}, line {line}, column {column}: found {found}, expected {expected}"
        )

    def _wrong(self, expected: str) -> InstanceError:
        token = self.tokens[self.position]
        found = token.text if token.kind == "end" else show(token.text)
        return self._error(found, expected, token.offset)

    def _keyword(self) -> str:
        """Return the keyword at the current position, "" if there is none."""
        token = self.tokens[self.position]
        word = token.text.lower() if token.kind == "id" else ""
        return word if word in _KEYWORDS else ""

    def _accept(self, sign: str) -> bool:
        token = self.tokens[self.position]
        if token.text != sign or token.kind not in ("sign", "arrow"):
            return False
        self.position += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise self._wrong(f"'{sign}'")

    def _is_name(self) -> bool:
        kind = self.tokens[self.position].kind
        return kind in ("quoted", "html") or (kind == "id" and not self._keyword())

    def _name(self) -> str:
        """Read an identifier; ``"a" + "b"`` is one."""
        if not self._is_name():
            raise self._wrong("a name")
        kind, text, _ = self.tokens[self.position]
        self.position += 1
        if kind != "quoted":
            return text
        text = re.sub(r"\\(.)", lambda m: _UNESCAPED.get(m[1], m[0]), text[1:-1], flags=re.DOTALL)
        return text + self._name() if self._accept("+") else text

    def graph(self) -> nx.MultiDiGraph[str]:
        """``[strict] digraph [name] { statements }``."""
        if self._keyword() == "strict":
            self.edge_key = 0
            self.position += 1
        if self._keyword() == "graph":
            raise self._wrong("'digraph' (a directed graph)")
        if self._keyword() != "digraph":
            raise self._wrong("'digraph'")
        self.position += 1
        if self._is_name() and (name := self._name()):
            self.result.graph["name"] = name
        self._expect("{")
        self._statements({}, {}, is_root=True)
        if self.tokens[self.position].kind != "end":
            raise self._wrong("one graph only")
        return self.result

    def _statements(
        self,
        node_defaults: Mapping[str, str],
        edge_defaults: Mapping[str, str],
        *,
        is_root: bool = False,
    ) -> list[str]:
        """Read up to and including ``}``; return the nodes that appear."""
        scope = {"node": dict(node_defaults), "edge": dict(edge_defaults), "graph": {}}
        if is_root:
            scope["graph"] = self.result.graph
        members: dict[str, None] = {}
        while not self._accept("}"):
            if (word := self._keyword()) in scope:
                self.position += 1
                scope[word].update(self._attributes())
            else:
                members.update(dict.fromkeys(self._statement(scope)))
            self._accept(";")
        return list(members)

    def _statement(self, scope: dict[str, dict[str, str]]) -> list[str]:
        """Read a node, an assignment, a subgraph or a chain of edges; return its nodes."""
        is_group = self._keyword() == "subgraph" or self.tokens[self.position].text == "{"
        ends = [self._end(scope)]
        if not is_group and self._accept("="):
            scope["graph"][ends[0][0]] = self._name()
            return []
        while self._accept("->"):
            ends.append(self._end(scope))
        if self.tokens[self.position].text == "--":
            raise self._wrong("'->' (a directed graph)")
        values = {} if is_group and len(ends) == 1 else self._attributes()
        for node in [node for end in ends for node in end]:
            if node not in self.result:
                self.result.add_node(node, **scope["node"])
        if len(ends) == 1 and not is_group:
            self.result.nodes[ends[0][0]].update(values)
        for tails, heads in pairwise(ends):
            for tail in tails:
                for head in heads:
                    key = self.result.add_edge(tail, head, key=self.edge_key)
                    self.result.edges[tail, head, key].update({**scope["edge"], **values})
        return [node for end in ends for node in end]

    def _end(self, scope: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Read one end of an edge: a node with an optional port, or a subgraph."""
        if self._keyword() == "subgraph":
            self.position += 1
            if self._is_name():
                self._name()
            self._expect("{")
            return self._statements(scope["node"], scope["edge"])
        if self._accept("{"):
            return self._statements(scope["node"], scope["edge"])
        name = self._name()
        while self._accept(":"):
            self._name()
        return [name]

    def _attributes(self) -> dict[str, str]:
        """``[key = value, ...]``, any number of times."""
        values: dict[str, str] = {}
        while self._accept("["):
            while not self._accept("]"):
                key = self._name()
                values[key] = self._name() if self._accept("=") else "true"
                if not self._accept(","):
                    self._accept(";")
        return values
