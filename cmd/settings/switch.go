package settings

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Switch is a yes or no that stays text until it is read, as all settings do: a
// parser that refuses one value hides the faults of the others.
type Switch string

// Decode implements [kong.MapperValue]: the flag alone means yes.
func (s *Switch) Decode(c *kong.DecodeContext) error {
	*s = "true"
	if c.Scan.Peek().Type == kong.FlagValueToken {
		*s = Switch(fmt.Sprint(c.Scan.Pop().Value))
	}
	return nil
}

// IsBool implements [kong.BoolMapperValue]: the flag takes no value of its own.
func (*Switch) IsBool() bool { return true }

// Read sets into where the switch says something, or returns what is wrong with
// it under the name of its environment variable.
func (s Switch) Read(name string, into *bool) error {
	switch strings.ToLower(strings.TrimSpace(string(s))) {
	case "":
	case "true", "yes", "on", "1":
		*into = true
	case "false", "no", "off", "0":
		*into = false
	default:
		return fmt.Errorf("%s is %q: it must be true or false", name, string(s))
	}
	return nil
}
