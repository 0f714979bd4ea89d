# SPDX-License-Identifier: Apache-2.0
#
# HTML and SVG as they are served: without indentation, empty lines and lines of comment (but the licence's); HTML also without
# ends of lines, quotes and end tags that may be left out.
s/^[[:blank:]]*//
/^$/d
1{
/SPDX/b
}
/SPDX/!{
/^<!-- .*-->$/d
}
/xmlns/,$b
s/="\([A-Za-z0-9_.-]\{1,\}\)"\([ >]\)/=\1\2/g
s/<\/\(li\|dt\|dd\|tr\|thead\|tbody\)>//g
# Between elements in lines of their own stands nothing.
H
$!d
x
s/^\n//
s/>\n</></g
