//go:build unix

package outbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"keyfold/engine/backoff"
)

// lockFolder keeps the setups of all processes on files of one folder apart. It locks the
// folder and not a file in it: SQLite's own locks on a file end when this process closes
// that file anywhere. The kernel lets go of the lock when the process ends.
func lockFolder(ctx context.Context, file string) (unlock func(context.Context) error, err error) {
	folder, err := os.Open(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; {
		err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func(context.Context) error { return folder.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(err, folder.Close())
		case time.Since(began) > time.Minute:
			return nil, errors.Join(errOtherSetup, folder.Close())
		case !backoff.Sleep(ctx, 20*time.Millisecond):
			return nil, errors.Join(ctx.Err(), folder.Close())
		}
	}
}
