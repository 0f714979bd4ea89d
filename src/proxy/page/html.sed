# SPDX-License-Identifier: Apache-2.0
#
# HTML and SVG as they are served: without indentation, empty lines and lines of comment (but the licence's); HTML also without
# quotes and end tags that may be left out.
s/^[[:blank:]]*//
/^$/d
/SPDX/b
/^<!-- .*-->$/d
/xmlns/,$b
s/="\([A-Za-z0-9_.-]\{1,\}\)"\([ >]\)/=\1\2/g
s/<\/\(li\|dt\|dd\|tr\|thead\|tbody\)>//g
