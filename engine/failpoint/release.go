//go:build !failpoints

package failpoint

// Enabled is false in a release build, and no setting changes it.
const Enabled = false

// Hit is nothing here.
func Hit(string) error { return nil }

// Reach is nothing here.
func Reach(string) {}
