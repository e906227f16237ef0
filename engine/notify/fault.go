package notify

import (
	"errors"
	"strings"

	"keyfold/engine"
)

// Reasons of faults that only [Parse] finds. The others are those of
// [profile.ParseEvent].
const (
	FaultBadEventID       = "bad_event_id"      // not the 36 characters of a UUID, or the zero UUID
	FaultEmpty            = "empty"             // a required text or list without content
	FaultTooLong          = "too_long"          // over the field's limit of characters
	FaultUnknownHint      = "unknown_hint"      // not one of the priority hints
	FaultUnknownChannel   = "unknown_channel"   // not one of the channels
	FaultDuplicateChannel = "duplicate_channel" // a channel twice
	FaultExpiresTooEarly  = "expires_too_early" // expires_at is not after timestamp
	FaultMetadataTooLarge = "metadata_too_large"
	FaultMetadataTooDeep  = "metadata_too_deep"
	FaultAmbiguousPath    = "ambiguous_path"      // two values of the metadata under one path
	FaultNumberOutOfRange = "number_out_of_range" // a number that SQL's jsonb does not take
	FaultBadReplaces      = "bad_replaces"        // neither a UUID nor "dedupe_key" with a dedupe_key
	FaultReserved         = "reserved_field"      // a field that only keyfold sets
)

// Reasons of faults that only [ParseReport] finds.
const (
	FaultBadDecisionID    = "bad_decision_id"    // not the 36 characters of a UUID, or the zero UUID
	FaultTwoIDs           = "two_ids"            // decision_id and event_id
	FaultUnknownStatus    = "unknown_status"     // not one of the statuses that a sender reports
	FaultErrorOfDelivered = "error_of_delivered" // an error of what was delivered
)

// Fault is one thing that is wrong with a body.
type Fault struct {
	Field  string `json:"field"`  // of the event, "" where the fault is not of one field
	Reason string `json:"reason"` // stable: a Fault constant, or a reason of [profile.ParseEvent]
	Text   string `json:"text"`   // what was found and what is expected; it begins with the field
	cause  error
}

// Faults is all that is wrong with a body.
type Faults []Fault

// Error returns the texts, separated by semicolons.
func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i := range f {
		texts[i] = f[i].Text
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors from which faults were made.
func (f Faults) Unwrap() (causes []error) {
	for i := range f {
		if f[i].cause != nil {
			causes = append(causes, f[i].cause)
		}
	}
	return causes
}

// err returns the permanent error of the faults, under the first one's reason; nil
// where there is none.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &engine.Error{Kind: engine.Permanent, Reason: f[0].Reason, Field: f[0].Field, Err: f}
}

// FaultsOf returns the faults in an error of [Parse], nil for another error.
func FaultsOf(err error) Faults {
	faults, _ := errors.AsType[Faults](err)
	return faults
}
