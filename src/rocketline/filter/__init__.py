"""SQL92 expressions over a message's properties, as a pure library: text in, a function out.

`compiler.compile_sql` reads an expression (`tokens`, `parser`, whose tree is in `syntax`) and checks it as Apache does;
`code` makes it one function, by writing that function's text. It takes the properties as a record has them, bytes, and
says whether the message is wanted; it looks for the properties that the expression names and at no other. `values` has
Java's numbers and the comparisons that are not worth code of their own.

What belongs here: the language. What does not: who may use it, and where its filters are kept (`broker`), and which
messages are looked at (`store`).
"""

from rocketline.filter.compiler import EXPRESSION_MAX as EXPRESSION_MAX
from rocketline.filter.compiler import SqlFilter as SqlFilter
from rocketline.filter.compiler import compile_sql as compile_sql
from rocketline.filter.compiler import memory_of as memory_of
