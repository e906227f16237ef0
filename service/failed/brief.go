package failed

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"keyfold/internal/cli"
)

// What an index keeps of the texts of a letter, in characters.
const (
	maxName  = 64 // a user, a type, a reason
	maxID    = 100
	maxError = 120
)

// Brief is what an index keeps of a letter. All its texts are printable.
type Brief struct {
	Where, ID, User, Type, Reason string
	Error                         string // the last one; "" where there is none
	first, last                   int64  // Unix milliseconds; 0: not known
	Retries                       int32
	NumericUser, Foreign          bool
}

// Brief returns what an index keeps of a letter.
func (l *Letter) Brief() Brief {
	b := Brief{
		Where: l.Where, ID: shortID(l.ID), User: short(l.User, maxName), Type: short(l.Type, maxName), Reason: short(l.Reason, maxName),
		first: millis(l.FirstFailure), last: millis(l.LastFailure), Retries: int32(min(max(l.Retries, 0), 1<<30)), //nolint:gosec // bounded
		NumericUser: l.NumericUser, Foreign: l.Foreign,
	}
	if len(l.Errors) > 0 || l.Fault != "" {
		b.Error = short(l.LastError(), maxError)
	}
	return b
}

// Letter is a letter of which only that is known.
func (b *Brief) Letter() Letter { return b.letter(make([]string, 1)) }

// letter has its error in room, which has room for one.
func (b *Brief) letter(room []string) Letter {
	l := Letter{
		Where: b.Where, ID: b.ID, User: b.User, NumericUser: b.NumericUser, Type: b.Type, Reason: b.Reason, Retries: int(b.Retries),
		FirstFailure: moment(b.first), LastFailure: moment(b.last), Foreign: b.Foreign,
	}
	if b.Error != "" {
		room[0] = b.Error
		l.Errors = room
	}
	return l
}

// LastFailure is zero where it is not known.
func (b *Brief) LastFailure() time.Time { return moment(b.last) }

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// short cuts a text, and lets go of the rest of it.
func short(s string, n int) string {
	return strings.Clone(cli.Shorten(cli.Printable(s[:min(len(s), 4*n+4)]), n))
}

// shortID cuts an id, so that two ids stay two.
func shortID(id string) string {
	cut := short(id, maxID)
	if cut == id {
		return cut
	}
	sum := sha256.Sum256([]byte(id))
	return short(id, maxName) + hex.EncodeToString(sum[:8])
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// Key names a letter where no other text may stand, as in a path: it is the id where that is of
// letters, digits and -._ alone.
func (b *Brief) Key() string {
	if plainID.MatchString(b.ID) {
		return b.ID
	}
	sum := sha256.Sum256([]byte(b.ID))
	return "~" + hex.EncodeToString(sum[:16])
}
