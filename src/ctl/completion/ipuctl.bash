# SPDX-License-Identifier: Apache-2.0
#
# Completion of ipuctl for bash: the program itself knows what may come.

_ipuctl()
{
	local line=${COMP_LINE:0:COMP_POINT} words=() found=() cur prefix
	read -ra words <<<"$line"
	[[ $line == *[[:space:]] ]] && words+=("")
	cur=${words[-1]}
	mapfile -t found < <("$1" __complete "${words[@]:1}" 2>/dev/null)
	COMPREPLY=()
	((${#found[@]})) || return 0
	if [[ ${found[-1]} == :0 ]]; then
		compopt -o default
		return 0
	fi
	unset 'found[-1]'
	# bash takes what is behind ':' and '=' for a word of its own.
	prefix=${cur%"${cur##*[:=]}"}
	COMPREPLY=("${found[@]#"$prefix"}")
}
complete -F _ipuctl ipuctl kubectl-ipu
