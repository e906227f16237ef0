package explanation

import (
	"errors"
	"fmt"
	"time"

	"keyfold/internal/cli"
)

// Flags are those of `user explain` in both programs.
type Flags struct {
	ID       cli.UserID `arg:"" help:"The user's id."`
	Events   int        `default:"10" help:"Number of events, by their share."`
	Near     int        `default:"10" help:"Number of nearest products."`
	Without  []string   `placeholder:"WHAT" help:"Also the profile without the last-session, the last-write, an event type, or the event whose message_id begins so."`
	HalfLife cli.Span   `name:"half-life" placeholder:"1d" help:"Also the profile at another half-life; nothing is written."`
	Together bool       `help:"In the reasons of a product, take the events of one product or phrase together."`
	Product  int32      `placeholder:"ID" help:"Also why this product is as near as it is."`
}

// Help is the long text.
func (f *Flags) Help() string {
	return `A profile is a sum, so each event has a share of it, and all shares and the remainder add up to 1. The events are folded
anew, and the result is compared with what is stored. The remainder is what is stored and of no known event: older ones
than the history holds. Nothing is written.

Examples:
  user explain 17
  user explain 17 --without last-session --half-life 1d
  user explain 17 --product 789`
}

// CheckFlags judges them.
func (f *Flags) CheckFlags() error {
	faults := []error{cli.CheckNear(f.Near)}
	if f.Events < 0 {
		faults = append(faults, fmt.Errorf("--events %d is negative", f.Events))
	}
	if f.HalfLife < 0 {
		faults = append(faults, errors.New("--half-life is negative"))
	}
	return errors.Join(faults...)
}

// Options are those of a view.
func (f *Flags) Options() Options {
	return Options{Events: f.Events, Near: f.Near, Without: f.Without, HalfLife: time.Duration(f.HalfLife), Together: f.Together, Product: f.Product}
}
