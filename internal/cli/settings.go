package cli

import (
	"cmp"

	"keyfold/internal/settings"
)

// EmitSettings writes settings with their sources. used has what is used in place of
// the value of a variable that was left open or lowered.
func (c *Console) EmitSettings(all []settings.Setting, used map[string]string) error {
	for i := range all {
		if value, ok := used[all[i].Variable]; ok {
			all[i].Value = value
		}
	}
	return c.Emit(all, func(w *Text) {
		for _, s := range all {
			source := s.Source
			if source == settings.FromFlag {
				source = s.Flag
			}
			w.Line("%-27s %-26s %s", s.Variable, source, cmp.Or(s.Value, "(not set)"))
		}
	})
}
