package rule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// ofText compares the field's text. Null, and a value of another type, hold for nothing.
func (f *field) ofText(holds func(text string) bool) func(*notify.Input) bool {
	if f.path != "" {
		return f.ofKind(notify.String, func(v notify.Value) bool { return holds(v.Text) })
	}
	text := f.text
	return func(in *notify.Input) bool { found := text(in); return found != "" && holds(found) }
}

func prefix(f *field, c *Condition) func(*notify.Input) bool {
	value := c.Values[0].Text
	return f.ofText(func(text string) bool { return strings.HasPrefix(text, value) })
}

// contains asks a text for a part of it, and a list for a member.
func contains(f *field, c *Condition) func(*notify.Input) bool {
	value := c.Values[0].Text
	part := func(text string) bool { return strings.Contains(text, value) }
	if f.path == "" {
		return f.ofText(part)
	}
	return func(in *notify.Input) bool {
		switch v := f.value(in); v.Kind {
		case notify.String:
			return part(v.Text)
		case notify.Array:
			return slices.Contains(v.Items, value)
		default:
			return false
		}
	}
}

func checkText(v notify.Value) string {
	if v.Text == "" {
		return "every text has the empty one: write a text, or use exists"
	}
	return ""
}

// timed returns the compile of an operator that holds by how the event's instant compares
// with the value. A text that is no instant holds for nothing.
func timed(holds func(order int) bool) func(*field, *Condition) func(*notify.Input) bool {
	return func(f *field, c *Condition) func(*notify.Input) bool {
		value, _ := engine.InstantOf(c.Values[0].Text)
		if instant := f.instant; instant != nil {
			return func(in *notify.Input) bool { return holds(cmp.Compare(instant(in), value)) }
		}
		return f.ofKind(notify.String, func(v notify.Value) bool {
			at, ok := engine.InstantOf(v.Text)
			return ok && holds(cmp.Compare(at, value))
		})
	}
}

func checkInstant(v notify.Value) string {
	if _, ok := engine.InstantOf(v.Text); !ok {
		return fmt.Sprintf("found %.60q, expected an instant such as \"2026-12-24T18:00:00+01:00\" or a date such as \"2026-12-24\", which is its midnight in UTC", v.Text)
	}
	return ""
}

// percentPlaces is the number of decimal places that a share of percent may have.
const percentPlaces = 2

// percent chooses a share of all texts: the same ones at each time, among those of every
// larger share of the rule, and others than another rule chooses. A text is chosen where
// XXH64(text, seed XXH64(the 16 bytes of the rule_id)) mod 10,000 is below the share in
// hundredths of a percent.
func percent(f *field, c *Condition) func(*notify.Input) bool {
	share, _ := c.Values[0].Number.Floor(percentPlaces)
	seed := xxhash.Sum64(c.rule[:])
	return f.ofText(func(text string) bool {
		var d xxhash.Digest
		d.ResetWithSeed(seed)
		_, _ = d.WriteString(text)
		return int64(d.Sum64()%(100*100)) < share
	})
}

func checkPercent(v notify.Value) string {
	if share, exact := v.Number.Floor(percentPlaces); !exact || share < 0 || share > 100*100 {
		return fmt.Sprintf("found %s, expected a number from 0 to 100 with at most %d decimal places", v.Text, percentPlaces)
	}
	return ""
}
