# SPDX-License-Identifier: Apache-2.0
#
# A style sheet as it is served: without indentation, empty lines, lines of comment (but the licence's) and spaces that say nothing.
s/^[[:blank:]]*//
/^$/d
/SPDX/b
/^\/\*.*\*\/$/d
/^\/\*/,/\*\/$/d
s/ *\([{};]\) */\1/g
s/: /:/g
s/, /,/g
