package mongodb

import (
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Fields of user_embeddings.
const (
	fieldID         = "_id"
	fieldUser       = "user_id"
	fieldVersion    = "version"
	fieldEmbedding  = "embedding"
	fieldDimensions = "dimension_count"
	fieldUpdated    = "last_updated"
	fieldEventCount = "event_count"
	fieldLastType   = "last_event_type"
	fieldCreatedAt  = "created_at"
	fieldWrittenAt  = "updated_at"

	// keyfold's own.
	fieldMass    = "mass"
	fieldHistory = "history"
	fieldModel   = "embedding_model"
	fieldLastID  = "last_message_id"
	fieldApplied = "applied"
	fieldFloor   = "applied_floor"
	fieldErased  = "erased_at"
	// fieldMarks is there where events came by streams.
	fieldMarks = "stream_marks"
	// The second vector's, in a document that has one. The version is the document's: an
	// earlier keyfold moves that on and leaves these fields as they are.
	fieldShort         = "embedding_short"
	fieldShortMass     = "mass_short"
	fieldShortHalfLife = "short_half_life" // seconds
	fieldShortVersion  = "short_version"
	// fieldWriteID is of the bulk that wrote the document: by it, a worker knows
	// its own write from another's of the same version.
	fieldWriteID = "write_id"
)

var shortFields = []string{fieldShort, fieldShortMass, fieldShortHalfLife, fieldShortVersion}

// codec turns profiles into documents and back. It is shared by all goroutines.
type codec struct {
	dimensions int
	vector     vectorTemplate
	format     Format
	model      string // the configured one, which most documents name
}

func newCodec(dimensions int, format Format, model string) *codec {
	return &codec{dimensions: dimensions, vector: newVectorTemplate(dimensions), format: format, model: model}
}

// maxFixedBytes is above what appendInsert or appendUpdate need beside the
// vector, the ids and the strings.
const maxFixedBytes = 640

// size returns about how many bytes p takes, never less.
func (c *codec) size(p *profile.Profile) int {
	vectors := len(c.vector)
	if p.Short.Vector != nil {
		vectors *= 2
	}
	return maxFixedBytes + vectors + p.Applied.Size() + p.Marks.MaxSize() + len(p.LastID) + len(p.Model) + len(p.History)
}

// appendInsert appends the document of a new user. id is the bulk's.
func (c *codec) appendInsert(dst []byte, p *profile.Profile, id bson.ObjectID) []byte {
	start, dst := bsoncore.AppendDocumentStart(dst)
	// The driver would add the _id, to another copy of the document.
	dst = bsoncore.AppendObjectIDElement(dst, fieldID, bson.NewObjectID())
	dst = bsoncore.AppendInt32Element(dst, fieldUser, p.UserID)
	return endDocument(c.appendFields(dst, p, id), start)
}

// appendUpdate appends the update of a known user. It sets every field, so that
// nothing of the old profile stays: user_id too, which another program may have
// written as a long or a double, and the validator wants an int.
func (c *codec) appendUpdate(dst []byte, p *profile.Profile, id bson.ObjectID) []byte {
	start, dst := bsoncore.AppendDocumentStart(dst)
	set, dst := bsoncore.AppendDocumentElementStart(dst, "$set")
	dst = bsoncore.AppendInt32Element(dst, fieldUser, p.UserID)
	dst = endDocument(c.appendFields(dst, p, id), set)
	if p.DropShort {
		unset, with := bsoncore.AppendDocumentElementStart(dst, "$unset")
		for _, field := range shortFields {
			with = bsoncore.AppendStringElement(with, field, "")
		}
		dst = endDocument(with, unset)
	}
	return endDocument(dst, start)
}

// appendDue appends the filter that finds the profile before p, and no
// tombstone.
func appendDue(dst []byte, p *profile.Profile) []byte {
	start, dst := bsoncore.AppendDocumentStart(dst)
	dst = bsoncore.AppendInt32Element(dst, fieldUser, p.UserID)
	dst = bsoncore.AppendInt32Element(dst, fieldVersion, p.Version-1)
	dst = bsoncore.AppendNullElement(dst, fieldErased)
	return endDocument(dst, start)
}

// appendFields appends everything but user_id. The vector comes last: people
// who look at a document see what they look for first.
func (c *codec) appendFields(dst []byte, p *profile.Profile, id bson.ObjectID) []byte {
	dst = bsoncore.AppendInt32Element(dst, fieldVersion, p.Version)
	dst = appendDate(dst, fieldUpdated, p.Updated)
	dst = appendCount(dst, fieldEventCount, p.EventCount)
	// A profile of another program may have no type; an empty one would not
	// pass the validator.
	if p.LastType != 0 {
		dst = bsoncore.AppendStringElement(dst, fieldLastType, p.LastType.String())
	}
	dst = bsoncore.AppendStringElement(dst, fieldLastID, p.LastID)
	dst = appendOptionalDate(dst, fieldCreatedAt, p.CreatedAt)
	dst = appendOptionalDate(dst, fieldWrittenAt, p.WrittenAt)
	dst = bsoncore.AppendDoubleElement(dst, fieldMass, p.Mass)
	dst = bsoncore.AppendStringElement(dst, fieldHistory, string(p.History))
	dst = bsoncore.AppendStringElement(dst, fieldModel, p.Model)
	dst = appendApplied(dst, p.Applied)
	dst = appendOptionalDate(dst, fieldFloor, p.Applied.Floor)
	if len(p.Marks) > 0 {
		dst = bsoncore.AppendBinaryElement(dst, fieldMarks, genericBinary, p.Marks.AppendStored(nil))
	}
	dst = bsoncore.AppendObjectIDElement(dst, fieldWriteID, id)
	if p.Short.Vector != nil {
		dst = bsoncore.AppendDoubleElement(dst, fieldShortMass, p.Short.Mass)
		dst = bsoncore.AppendInt32Element(dst, fieldShortHalfLife, int32(p.Short.HalfLife/time.Second))
		dst = bsoncore.AppendInt32Element(dst, fieldShortVersion, p.Version)
	}
	dst = bsoncore.AppendInt32Element(dst, fieldDimensions, int32(len(p.Vector)))
	dst = c.appendElement(dst, fieldEmbedding, p.Vector)
	if p.Short.Vector != nil {
		dst = c.appendElement(dst, fieldShort, p.Short.Vector)
	}
	return dst
}

func appendDate(dst []byte, field string, at engine.Millis) []byte {
	return bsoncore.AppendDateTimeElement(dst, field, int64(at))
}

// appendOptionalDate appends a date, or null for the zero that stands for none.
// It is not left out: an update has to overwrite what was there.
func appendOptionalDate(dst []byte, field string, at engine.Millis) []byte {
	if at == 0 {
		return bsoncore.AppendNullElement(dst, field)
	}
	return appendDate(dst, field, at)
}

// appendCount appends an int where it fits, as the specification has it, and a
// long otherwise: a count that stuck at its maximum would be wrong for ever.
func appendCount(dst []byte, field string, n int64) []byte {
	if n >= math.MinInt32 && n <= math.MaxInt32 {
		return bsoncore.AppendInt32Element(dst, field, int32(n))
	}
	return bsoncore.AppendInt64Element(dst, field, n)
}

// appendApplied appends the ids without a copy on the way.
func appendApplied(dst []byte, a profile.Applied) []byte {
	dst = bsoncore.AppendHeader(dst, bsoncore.TypeBinary, fieldApplied)
	dst = bsoncore.AppendInt32(dst, int32(a.Size()))
	return a.AppendStored(append(dst, genericBinary))
}
