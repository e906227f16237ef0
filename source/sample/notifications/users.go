package notifications

import (
	"math/rand/v2"
	"strconv"

	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

// User is one whom the week's events are for.
type User struct {
	ID          string // decimal, from 1
	Preferences notify.Preferences
}

// person is a user with what the generator knows of one.
type person struct {
	User
	country

	name   string
	silent bool // services send this user's notifications without identity metadata
	dated  bool // services send the user's zone as metadata.timezone
	group  int  // of an A/B test of texts, 0 or 1
}

// newPerson makes a user of the seed and the id alone, so that other users change nothing.
func newPerson(seed uint64, id int) *person {
	r, d := rand.New(rand.NewPCG(seed, uint64(id))), data()
	home := draw(r, d.Countries)
	p := &person{
		User: User{ID: strconv.Itoa(id)}, country: home, name: pick(r, d.Languages[home.Language].Names),
		silent: r.IntN(50) == 0, dated: r.IntN(5) == 0, group: r.IntN(2),
	}
	p.Preferences = notify.Preferences{
		Quiet: draw(r, d.Quiet), Muted: draw(r, d.Muted), Channels: draw(r, d.Channels), Caps: draw(r, d.Caps),
	}
	if r.IntN(10) < 7 { // others have not set their zone
		// Where the machine's zone data do not know the zone, the user has none set.
		p.Preferences.Zone, _ = quiet.LoadZone(home.Zone)
	}
	return p
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
