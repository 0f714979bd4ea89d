# SPDX-License-Identifier: Apache-2.0
#
# A module as it is served: without indentation, empty lines and comments (but the licence's), and, as far as no quote stands in
# front of them in their line, so that they are no text's, without spaces around what needs none.
s/^[[:blank:]]*//
/^$/d
/SPDX/b
/^\/\//d
s/ *\/\/ [^"'`]*$//
# Regular expressions have spaces, too.
/(\//b
:again
s/^\([^"'`]*\) \([=<>?:&|+*!]\{1,3\}\) /\1\2/
t again
s/^\([^"'`]*[,;:]\) /\1/
t again
s/^\([^"'`]*\) {/\1{/
t again
s/^\([^"'`]*)\) \([a-z(]\)/\1\2/
t again
