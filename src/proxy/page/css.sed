# SPDX-License-Identifier: Apache-2.0
#
# A style sheet as it is served: one line, without empty ones, lines of comment (but the licence's) and spaces that say nothing.
s/^[[:blank:]]*//
/^$/d
/SPDX/b
/^\/\*.*\*\/$/d
/^\/\*/,/\*\/$/d
s/ *\/\*.*\*\/$//
s/ *\([{};>]\) */\1/g
s/: /:/g
s/, /,/g
# All of it is one line.
H
$!d
x
s/\n//g
s/;}/}/g
