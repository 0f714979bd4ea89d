# SPDX-License-Identifier: Apache-2.0
#
# A module as it is served: without indentation, empty lines and comments (but the licence's), and, as far as no quote stands in
# front of them in their line, so that they are no text's, without spaces around what needs none.
s/^[[:blank:]]*//
/^$/d
/SPDX/b end
/^\/\//d
s/ *\/\/ [^"'`]*$//
# Regular expressions have spaces, too.
/(\//b end
:again
s/^\([^"'`]*\) \([=<>?:&|+*!]\{1,3\}\) /\1\2/
t again
s/^\([^"'`]*[,;:]\) /\1/
t again
s/^\([^"'`]*\) {/\1{/
t again
s/^\([^"'`]*)\) \([a-z(]\)/\1\2/
t again
# Where no other quotes stand in a line, also between and behind those texts.
/['`\\]/b end
:more
s/^\(\([^"]*"[^"]*"\)*[^"]*\) \([=<>?:&|+*!]\{1,3\}\) /\1\3/
t more
s/^\(\([^"]*"[^"]*"\)*[^"]*[,;:]\) /\1/
t more
s/^\(\([^"]*"[^"]*"\)*[^"]*\) {/\1{/
t more
s/^\(\([^"]*"[^"]*"\)*[^"]*)\) \([a-z(]\)/\1\3/
t more
:end
# Semicolons in front of a block's end say nothing.
H
$!d
x
s/^\n//
s/;\n}/\n}/g
