package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"keyfold/engine"
	"keyfold/engine/causes"
)

// Reasons of the errors this store marks.
const (
	reasonRejected = "document_rejected"
	reasonSettings = "store_settings"
	reasonAddress  = "store_address"
	reasonLogin    = "store_login"
	reasonRights   = "store_rights"
	reasonCorrupt  = "store_corrupt"
	reasonNotSetUp = "store_not_set_up"
)

// Codes of the server's errors.
// Source: src/mongo/base/error_codes.yml; 8000 is Atlas's proxy.
const (
	codeUserNotFound         = 11
	codeUnauthorized         = 13
	codeTypeMismatch         = 14
	codeAuthenticationFailed = 18
	codeNamespaceNotFound    = 26
	codeNamespaceExists      = 48
	codeCommandNotFound      = 59
	codeInvalidOptions       = 72
	codeIndexOptionsConflict = 85
	codeIndexKeyConflict     = 86
	codeCommandNotSupported  = 115
	codeValidation           = 121
	codeNotImplemented       = 238
	codeNoRetryableWrites    = 301
	codeFeatureNotSupported  = 303
	codeMechanismUnavailable = 334
	codeAtlasError           = 8000
	codeTooLarge             = 10334
	codeOutOfDisk            = 14031
	codeDuplicateKey         = 11000
	codeUpdateTooLarge       = 17419
	codeInsertTooLarge       = 17420
	codeUnknownField         = 40415
)

var (
	codesOfDocument = []int{codeValidation, codeTooLarge, codeUpdateTooLarge, codeInsertTooLarge}
	// codesOfLostShard are how a mongos answers for a shard that it cannot reach, or that has no
	// primary: HostUnreachable, HostNotFound, NetworkTimeout, FailedToSatisfyReadPreference,
	// NetworkInterfaceExceededTimeLimit. Reads fail with them as a whole, writes statement by statement.
	codesOfLostShard = []int{6, 7, 89, 133, 202}
	// codesOfAbsence are how servers say that they have no such feature.
	codesOfAbsence = []int{
		codeCommandNotFound, codeInvalidOptions, codeCommandNotSupported, codeNotImplemented,
		codeFeatureNotSupported, codeUnknownField,
	}
)

// hasCode reports whether the server answered with one of codes.
func hasCode(err error, codes ...int) bool {
	return slices.ContainsFunc(mongo.ErrorCodes(err), func(code int) bool { return slices.Contains(codes, code) })
}

// causesOf has the cause of each code that says what keeps the server from being used.
var causesOf = map[int]causes.ID{
	codeUserNotFound: causes.Credentials, codeAuthenticationFailed: causes.Credentials,
	codeMechanismUnavailable: causes.Credentials, codeAtlasError: causes.Credentials,
	codeUnauthorized: causes.Rights,
	codeOutOfDisk:    causes.Disk,
	91:               causes.Stopping, 11600: causes.Stopping, 11602: causes.Stopping, // it shuts down, or was stepped down
	10107: causes.ReadOnly, 13435: causes.ReadOnly, // it is no primary
}

var reasonsOf = map[causes.ID]string{causes.Credentials: reasonLogin, causes.Rights: reasonRights}

// causeOf returns the cause of an error and its reason, "" where none is known.
func causeOf(err error) (id causes.ID, reason string) {
	for _, code := range mongo.ErrorCodes(err) {
		if id = causesOf[code]; id != "" {
			return id, cmp.Or(reasonsOf[id], id.Reason())
		}
	}
	if unselected, ok := errors.AsType[topology.ServerSelectionError](err); ok {
		id = unselectedCause(unselected.Desc)
	} else if len(mongo.ErrorCodes(err)) == 0 && !errors.Is(err, context.Canceled) {
		id = causes.Find(err)
	}
	return id, id.Reason()
}

// explain gives an error its cause and kind where its cause is known.
func explain(doing string, err error) error {
	id, reason := causeOf(err)
	err = fmt.Errorf("MongoDB: %s: %w", doing, plainly(err))
	if id == "" {
		return err
	}
	if err = causes.Explain(causes.MongoDB, id, err); id.Lasts() {
		return engine.ConfigurationError(reason, err)
	}
	return err
}

// mark gives an error of the driver its kind. What is not listed may pass and
// stays transient. doing says what was under way.
func mark(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case hasCode(err, codeNoRetryableWrites):
		return engine.ConfigurationError(reasonAddress, fmt.Errorf(
			"this server has no retryable writes (%s): add retryWrites=false to the options of %s: %w", doing, uriSetting, err))
	case hasCode(err, codesOfDocument...):
		return engine.PermanentError(reasonRejected, fmt.Errorf("MongoDB rejected the document (%s): %w", doing, err))
	case hasCode(err, codesOfLostShard...):
		return fmt.Errorf("MongoDB: %s: a shard is %w: %w", doing, engine.ErrAway, err)
	default:
		return explain(doing, err)
	}
}

// markWrite is mark for writes without an answer of their own: whatever is not
// decided by a code may have happened.
func markWrite(doing string, err error) error {
	marked := mark(doing, err)
	if err == nil || engine.KindOf(marked) != engine.Transient {
		return marked
	}
	return fmt.Errorf("%w: %w", engine.ErrUnknown, marked)
}

// damaged returns a configuration fault: a document that cannot be read as what
// it should be.
func damaged(what string, err error) error {
	return engine.ConfigurationError(reasonCorrupt, fmt.Errorf(
		"%s %w: repair the document, or delete it and rebuild the user", what, err))
}

// ended returns ctx's error where it has ended: nothing was sent then.
func ended(ctx context.Context, doing string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("MongoDB: %s: not begun: %w", doing, err)
	}
	return nil
}
