package cli

import (
	"fmt"
	"os"
	"path/filepath"
)

// CheckPage says before the work that its page cannot be written after it. flag names the
// file; "" is none.
func CheckPage(flag, file string) error {
	if file == "" {
		return nil
	}
	if there, err := os.Stat(file); err == nil && there.IsDir() {
		return fmt.Errorf("%s %s: it is a folder, expected a file", flag, file)
	}
	switch folder, err := os.Stat(filepath.Dir(file)); {
	case err != nil:
		return fmt.Errorf("%s %s: its folder: %w", flag, file, err)
	case !folder.IsDir():
		return fmt.Errorf("%s %s: %s is no folder", flag, file, filepath.Dir(file))
	}
	return nil
}
