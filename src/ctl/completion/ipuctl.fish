# SPDX-License-Identifier: Apache-2.0
#
# Completion of ipuctl for fish: the program itself knows what may come.

function __ipuctl_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l found ($words[1] __complete $words[2..-1] "$cur" 2>/dev/null)
    test (count $found) -gt 0; or return
    if test "$found[-1]" = ":0"
        __fish_complete_path "$cur"
    else if test (count $found) -gt 1
        printf '%s\n' $found[1..-2]
    end
end

complete -c ipuctl -f -a '(__ipuctl_complete)'
complete -c kubectl-ipu -f -a '(__ipuctl_complete)'
