package ruleset

import (
	"fmt"
	"os"

	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
	"keyfold/internal/cli"
)

// Fixed is the set of a process that does not exchange it.
type Fixed struct{ Set *notify.Set }

// Current implements [notify.Sets].
func (f Fixed) Current() *notify.Set { return f.Set }

// Read reads the rules of a file, the shipped ones where path is "".
func Read(path string, local notify.Local) (*notify.Set, error) {
	text := rule.Default()
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	document, faults := rule.Read(text)
	if err := faults.Err(); err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("%s cannot be used (`notify rules lint FILE` shows the same):\n%w", path, err)}
	}
	return rule.Compile(document, local), nil
}
