package mongotest

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Codes of the errors this server answers with.
// Source: src/mongo/base/error_codes.yml of the server.
const (
	codeInternal             = 1
	codeBadValue             = 2
	codeFailedToParse        = 9
	codeUnauthorized         = 13
	codeTypeMismatch         = 14
	codeAuthenticationFailed = 18
	codeAlreadyInitialized   = 23
	codeNamespaceNotFound    = 26
	codeConflictingOperators = 40
	codeCursorNotFound       = 43
	codeNamespaceExists      = 48
	codeMaxTimeExpired       = 50
	codeCommandNotFound      = 59
	codeShardKeyNotFound     = 61
	codeImmutableField       = 66
	codeCannotCreateIndex    = 67
	codeInvalidOptions       = 72
	codeInvalidNamespace     = 73
	codeIndexOptionsConflict = 85
	codeIndexKeyConflict     = 86
	codeNotSupported         = 115
	codeValidation           = 121
	codeTransactionTooOld    = 225
	codeTransactionRefused   = 263
	codeNotWritablePrimary   = 10107
	codeTooLarge             = 10334
	codeDuplicateKey         = 11000
	codeInterrupted          = 11602
	codeNotPrimaryRead       = 13435
	codeUpdateTooLarge       = 17419
	codeMissingField         = 40414
)

// retryable holds the codes a server labels RetryableWriteError.
// Source: the RetriableError category of the server's error codes.
var retryable = map[int32]bool{
	6: true, 7: true, 89: true, 91: true, 189: true, 262: true, 9001: true, 10107: true,
	11600: true, 11602: true, 13435: true, 13436: true,
}

// stateChange holds the codes that say that a node is no primary (any more);
// with these a server sends its topologyVersion, by which drivers tell news from
// what they know already.
var stateChange = map[int32]bool{
	91: true, 189: true, 10107: true, 11600: true, 11602: true, 13435: true, 13436: true,
}

// failure is an error answer, of a whole command or of one statement.
type failure struct {
	code    int32
	message string
	// details are complete elements that follow the code: keyPattern and
	// keyValue, or errInfo.
	details []byte
	labels  []string // instead of those that belong to the code, where not nil
}

func (f *failure) Error() string { return f.message }

func fail(code int32, format string, args ...any) *failure {
	return &failure{code: code, message: fmt.Sprintf(format, args...)}
}

// failureOf returns err as an answer; what is no failure is an internal error.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return fail(codeInternal, "%v", err)
}

// appendTo appends the elements of a top-level error but for ok and labels.
func (f *failure) appendTo(dst []byte) []byte {
	dst = bsoncore.AppendStringElement(dst, "errmsg", f.message)
	dst = bsoncore.AppendInt32Element(dst, "code", f.code)
	return append(dst, f.details...)
}

// statement returns the element of writeErrors.
func (f *failure) statement(index int) document {
	start, dst := bsoncore.AppendDocumentStart(nil)
	dst = bsoncore.AppendInt32Element(dst, "index", int32(index))
	dst = bsoncore.AppendInt32Element(dst, "code", f.code)
	dst = append(dst, f.details...)
	dst = bsoncore.AppendStringElement(dst, "errmsg", f.message)
	return endDocument(dst, start)
}

// endDocument closes a document. The library's version fails only for a start
// outside the buffer.
func endDocument(dst []byte, start int32) []byte {
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, start, int32(len(dst))-start)
}
