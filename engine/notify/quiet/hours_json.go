package quiet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// weekdays are the names of days in JSON, by their bit.
var weekdays = [...]string{"", "mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// MarshalJSON returns the form that UnmarshalJSON reads, without spans "[]".
func (h Hours) MarshalJSON() ([]byte, error) {
	type form struct {
		From Clock    `json:"from"`
		To   Clock    `json:"to"`
		Days []string `json:"days,omitempty"`
	}
	spans := make([]form, len(h))
	for i, span := range h {
		spans[i] = form{From: span.From, To: span.To}
		for bit := 1; bit <= 7 && span.Days != 0; bit++ {
			if span.Days.Has(bit) {
				spans[i].Days = append(spans[i].Days, weekdays[bit])
			}
		}
	}
	return json.Marshal(spans)
}

// UnmarshalJSON reads [{"from": "22:00", "to": "07:00", "days": ["mon", "fri"]}] and
// validates it. Without days a span is of every day. Unknown keys and keys that come
// twice are faults. The error names every fault.
func (h *Hours) UnmarshalJSON(text []byte) error {
	var spans []jsontext.Value
	if err := json.Unmarshal(text, &spans, jsontext.AllowDuplicateNames(true)); err != nil {
		return errors.New(`quiet hours are no list: write [{"from": "22:00", "to": "07:00"}]`)
	}
	read := make(Hours, len(spans))
	var faults []error
	for i, text := range spans {
		for _, err := range read[i].read(text) {
			faults = append(faults, fmt.Errorf("span %d: %w", i+1, err))
		}
	}
	if len(faults) == 0 {
		faults = append(faults, read.Validate())
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	*h = read
	return nil
}

// read reads one span and returns its faults.
func (s *Span) read(text jsontext.Value) (faults []error) {
	var keys map[string]jsontext.Value
	if err := json.Unmarshal(text, &keys); err != nil || keys == nil {
		return []error{errors.New(`it is no object whose keys come once: write {"from": "22:00", "to": "07:00"}`)}
	}
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	note(s.From.read("from", keys))
	note(s.To.read("to", keys))
	if text, ok := keys["days"]; ok {
		note(s.Days.read(text))
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if key != "from" && key != "to" && key != "days" {
			note(fmt.Errorf(`unknown key %.40q: use "from", "to" and "days"`, key))
		}
	}
	return faults
}

// read reads a time of day under a key.
func (c *Clock) read(key string, keys map[string]jsontext.Value) error {
	var text string
	if err := json.Unmarshal(keys[key], &text); err != nil {
		return fmt.Errorf(`%q must be a time of day such as "22:00"`, key)
	}
	if err := c.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%q: %w", key, err)
	}
	return nil
}

// read reads a list of days.
func (d *Days) read(text jsontext.Value) error {
	cure := `"days" must be a list of ` + strings.Join(weekdays[1:], ", ") + ", each once; leave it out for every day"
	var names []string
	if err := json.Unmarshal(text, &names); err != nil || len(names) == 0 {
		return errors.New(cure)
	}
	for _, name := range names {
		bit := slices.Index(weekdays[1:], name) + 1
		if bit == 0 || *d&(1<<bit) != 0 {
			return fmt.Errorf("%s: it has %.40q", cure, name)
		}
		*d |= 1 << bit
	}
	return nil
}
