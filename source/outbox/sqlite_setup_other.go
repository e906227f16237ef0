//go:build !unix

package outbox

import "context"

// lockFolder does nothing where there is no flock: running one setup at a time is up to
// the user there.
func lockFolder(context.Context, string) (unlock func(context.Context) error, err error) {
	return func(context.Context) error { return nil }, nil
}
