package profile

import (
	"fmt"

	"keyfold/engine"
)

// Reasons for which [ParseEvent] alone refuses a body, beside those of every
// body, which begin at [engine.ReasonBodyTooLarge]. A body with several faults is refused
// for the first of them in this order: size, encoding, then the JSON text from its
// start to its end, then version, metadata, user_id, event_type, product_id and
// search_phrase, occurred_at, message_id.
const (
	ReasonUnsupportedVersion   = "unsupported_version" // present and not "1.0"
	ReasonMetadataNotObject    = "metadata_not_object"
	ReasonPhraseTooLong        = "phrase_too_long"       // over [MaxPhraseRunes]
	ReasonBadMessageID         = "bad_message_id"        // empty or over [MaxMessageRunes]
	ReasonSearchWithoutPhrase  = "search_without_phrase" // none, empty or white space only
	ReasonProductEventNoTarget = "product_event_without_product"
	ReasonPhraseAndProduct     = "phrase_and_product" // both set, for either kind of event
)

// refuseField does what [engine.Refuse] does, for a fault of one field.
func refuseField(reason string, name field, format string, args ...any) error {
	return &engine.Error{Kind: engine.Permanent, Reason: reason, Field: name.String(), Err: fmt.Errorf(name.String()+": "+format, args...)}
}
