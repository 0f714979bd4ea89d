# SPDX-License-Identifier: Apache-2.0
#
# A module as it is served: without comments (but the licence's, once), and without the spaces, ends of lines, semicolons and
# brackets around an arrow's only parameter that say nothing. Text stays as it is: strings, templates (but what is in ${}) and
# regular expressions. Each statement ends with a semicolon, and no line begins with a slash that divides.

BEGIN { last = "{" }

function is_word(c) { return c ~ /[A-Za-z0-9_$]/ || c > "~" }

# Writes a token of code, or the beginning of one; what was left out before it comes now, where it's needed.
function put(token,    c) {
	c = substr(token, 1, 1)
	if (semicolon && c != "}")
		out = out (newline && !index("([`/+*-", c) ? "\n" : ";")
	else if ((space || newline) && !semicolon && (is_word(last) && is_word(c) || last == c && index("+-", c)))
		out = out " "
	semicolon = newline = space = 0
	out = out token
	last = substr(token, length(token), 1)
}

# What stands in a line from i on up to the next end, backslashes and (of a regular expression) classes of letters seen to.
function quoted(line, i, end,    from, c, class) {
	for (from = i++; i <= length(line); i++) {
		c = substr(line, i, 1)
		if (c == "\\")
			i++
		else if (end == "/" && index("[]", c))
			class = c == "["
		else if (c == end && !class)
			break
	}
	return substr(line, from, i - from + 1)
}

# A template's text, from i on up to its end, or to code in it.
function template(line, i,    from) {
	for (from = i; i <= length(line); i++) {
		if (substr(line, i, 1) == "\\")
			i++
		else if (substr(line, i, 1) == "`")
			break
		else if (substr(line, i, 2) == "${") {
			i++
			break
		}
	}
	return substr(line, from, i - from + 1)
}

function arrow(    at) {
	at = match(out, /\([A-Za-z_$][A-Za-z0-9_$]*\)$/)
	if (at)
		out = substr(out, 1, at - 1) (is_word(substr(out, at - 1, 1)) ? " " : "") substr(out, at + 1, RLENGTH - 2)
}

# depth is how many templates are open; braces[depth] how many braces are in the present one's code, -1: in its text.
function code(line,    i, c, token) {
	for (i = 1; i <= length(line); i += length(token)) {
		token = c = substr(line, i, 1)
		if (depth && braces[depth] < 0) {
			token = template(line, i)
			out = out token
			last = substr(token, length(token), 1)
			if (last == "{")
				braces[depth] = 0
			else if (last == "`")
				depth--
		} else if (index(" \t", c)) {
			space = 1
		} else if (c == "/" && substr(line, i + 1, 1) == "/") {
			break
		} else if (index("\"'", c) || c == "/" && index("(,=:[!&|?{};", last)) {
			put(token = quoted(line, i, c))
		} else if (c == ";") {
			if (semicolon)
				out = out c
			semicolon = 1
			last = c
		} else if (c == "`") {
			put(c)
			braces[++depth] = -1
		} else if (c == "}" && depth && !braces[depth]) {
			put(c)
			braces[depth] = -1
		} else {
			if (depth && index("{}", c))
				braces[depth] += c == "{" ? 1 : -1
			if (substr(line, i, 2) == "=>")
				arrow()
			put(c)
		}
	}
}

/SPDX/ && !licence++ { print }
{
	code($0)
	if (depth && braces[depth] < 0)
		out = out "\n"
	else
		newline = 1
	if (!depth && out != "") {
		printf "%s", out
		out = ""
	}
}
END { print "" }
