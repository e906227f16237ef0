package cli

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// completeArg calls the program for the candidates of the words that follow.
const completeArg = "__complete"

// CompletionCmd prints the script that has a shell complete the program's commands,
// flags and values. The script asks the program.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the long text.
func (CompletionCmd) Help() string {
	return `Examples:
  source <(keyfold completion bash)                                  in ~/.bashrc
  source <(keyfold completion zsh)                                   in ~/.zshrc, after compinit
  keyfold completion fish > ~/.config/fish/completions/keyfold.fish`
}

// Answer implements [Plain].
func (c *CompletionCmd) Answer(command *kong.Context, console Console) error {
	name := command.Model.Name
	function := "_" + strings.ReplaceAll(name, "-", "_")
	_, err := io.WriteString(console.Stdout, strings.NewReplacer("PROGRAM", name, "FUNCTION", function).Replace(scripts[c.Shell]))
	return err
}

var scripts = map[string]string{
	"bash": `# bash completion of PROGRAM
FUNCTION() {
    local line word=${COMP_WORDS[COMP_CWORD]#=}
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == ` + completeFiles + ` ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
        fi
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("${COMP_WORDS[0]}" ` + completeArg + ` "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F FUNCTION PROGRAM
`,
	"zsh": `#compdef PROGRAM
FUNCTION() {
    local -a lines found
    local line meaning
    lines=("${(@f)$(${words[1]} ` + completeArg + ` "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ ${lines[1]} == ` + completeFiles + ` ]]; then
        compset -P '--*='
        _files
        return
    fi
    for line in $lines; do
        meaning=${line#*$'\t'}
        found+=("${${line%%$'\t'*}//:/\\:}${meaning:+:$meaning}")
    done
    _describe PROGRAM found
}
if [[ ${funcstack[1]} == FUNCTION ]]; then
    FUNCTION "$@"
else
    compdef FUNCTION PROGRAM
fi
`,
	"fish": `# fish completion of PROGRAM
function FUNCTION
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l found ($words[1] ` + completeArg + ` $words[2..-1] "$word" 2>/dev/null)
    if test "$found[1]" = ` + completeFiles + `
        set -l flag (string match -r -- '^--[^=]*=' "$word")
        for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$word"))
            printf '%s%s\n' "$flag" $path
        end
    else if set -q found[1]
        printf '%s\n' $found
    end
end
complete -c PROGRAM -f -a '(FUNCTION)'
`,
}
