package profile

import (
	"time"

	"keyfold/engine"
)

// EventFaults returns all that is wrong with an event that [ParseEvent] refuses, in the
// order of its fields: the first one is what ParseEvent returns. A text that is no object
// has one fault.
func EventFaults(body []byte, now time.Time) []error {
	var f fields
	if _, err := f.read(body); err != nil {
		return []error{err}
	}
	var all []error
	note := func(err error) bool {
		if err != nil {
			all = append(all, err)
		}
		return err == nil
	}
	note(f.checkVersion())
	note(f.checkMetadata())
	_, err := f.id(fieldUserID)
	note(err)
	kind, err := f.eventType()
	known := note(err)
	f.targetFaults(kind, known, note)
	_, err = f.occurredAt(engine.MillisOf(now))
	note(err)
	if f.set(fieldMessageID) {
		_, err = f.messageID(nil)
		note(err)
	}
	return all
}

// targetFaults notes all that is wrong with product and phrase. Whether one is missing, or
// one too many, is known where the type is.
func (f *fields) targetFaults(kind EventType, known bool, note func(error) bool) {
	e, readable := Event{Type: kind}, known
	var phrase []byte
	var err error
	if f.set(fieldProductID) {
		e.ProductID, err = f.id(fieldProductID)
		readable = note(err) && readable
	}
	if f.set(fieldPhrase) {
		phrase, err = f.text(fieldPhrase)
		readable = note(err) && readable
	}
	if !readable {
		return
	}
	if !kind.HasPhrase() {
		note(checkProductEvent(&e, phrase))
		if e.ProductID == 0 && len(phrase) > 0 {
			note(checkProductEvent(&Event{Type: kind, ProductID: 1}, phrase))
		}
		return
	}
	note(checkSearch(&e, phrase))
	if e.ProductID != 0 {
		if alone := checkSearch(&Event{Type: kind}, phrase); engine.FieldOf(alone) == fieldPhrase.String() && engine.ReasonOf(alone) != ReasonSearchWithoutPhrase {
			note(alone)
		} else if alone != nil {
			note(refuseField(ReasonPhraseAndProduct, fieldProductID, "found %d, expected none with a %s", e.ProductID, kind))
		}
	}
}
