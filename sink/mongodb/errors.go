package mongodb

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"keyfold/engine"
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
	codeDuplicateKey         = 11000
	codeUpdateTooLarge       = 17419
	codeInsertTooLarge       = 17420
	codeUnknownField         = 40415
)

var (
	codesOfLogin    = []int{codeUserNotFound, codeAuthenticationFailed, codeMechanismUnavailable, codeAtlasError}
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

// mark gives an error of the driver its kind. What is not listed may pass and
// stays transient. doing says what was under way.
func mark(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case hasCode(err, codesOfLogin...):
		return engine.ConfigurationError(reasonLogin, fmt.Errorf(
			"MongoDB refuses the login (%s): check the user, the password and authSource in MONGODB_URI: %w", doing, err))
	case hasCode(err, codeUnauthorized):
		return engine.ConfigurationError(reasonRights, fmt.Errorf(
			"MongoDB denies the right (%s): grant the user of MONGODB_URI the role readWrite on the database: %w", doing, err))
	case hasCode(err, codeNoRetryableWrites):
		return engine.ConfigurationError(reasonAddress, fmt.Errorf(
			"this server has no retryable writes (%s): add retryWrites=false to the options of MONGODB_URI: %w", doing, err))
	case hasCode(err, codesOfDocument...):
		return engine.PermanentError(reasonRejected, fmt.Errorf("MongoDB rejected the document (%s): %w", doing, err))
	case hasCode(err, codesOfLostShard...):
		return fmt.Errorf("MongoDB: %s: a shard is %w: %w", doing, engine.ErrAway, err)
	default:
		return fmt.Errorf("MongoDB: %s: %w", doing, plainly(err))
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
