package mongodb

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine/profile"
)

// profile reads a document, tombstones included. Nothing of the result aliases
// doc. See the package's documentation for what absent fields mean.
func (c *codec) profile(doc []byte) (*profile.Profile, error) {
	d := profileReader{codec: c, profile: profile.Profile{Mass: 1, History: profile.UnitMass}}
	if err := eachField(doc, d.field); err != nil {
		return nil, damaged(d.name(), err)
	}
	if d.profile.Erased() && d.hasUser && d.profile.Version >= 1 {
		return &profile.Profile{UserID: d.profile.UserID, Version: d.profile.Version, ErasedAt: d.profile.ErasedAt}, nil
	}
	if err := d.complete(); err != nil {
		return nil, damaged(d.name(), err)
	}
	return &d.profile, nil
}

// profileReader is a document on its way to a profile.
type profileReader struct {
	*codec
	profile profile.Profile

	hasUser, hasUpdated, hasMass bool
	count                        int32 // dimension_count
	hasCount                     bool
	short                        *shortValues // nil: no field of a second vector was met
}

// shortValues are the fields of a second vector, as they are in the document.
type shortValues struct{ vector, mass, halfLife, version bsoncore.Value }

// field takes one field of the document.
func (d *profileReader) field(key []byte, v bsoncore.Value) (err error) {
	p := &d.profile
	switch string(key) {
	case fieldUser:
		d.hasUser = true
		return readInt32(v, &p.UserID)
	case fieldVersion:
		return readInt32(v, &p.Version)
	case fieldEmbedding:
		p.Vector, err = d.vector.vectorOf(v, d.dimensions)
		return err
	case fieldDimensions:
		d.hasCount = true
		return readInt32(v, &d.count)
	case fieldUpdated:
		d.hasUpdated = true
		return readDate(v, &p.Updated)
	case fieldEventCount:
		return readInt64(v, &p.EventCount)
	case fieldLastType:
		return d.lastType(v)
	case fieldCreatedAt:
		return readDate(v, &p.CreatedAt)
	case fieldWrittenAt:
		return readDate(v, &p.WrittenAt)
	case fieldErased:
		return readDate(v, &p.ErasedAt)
	default:
		return d.ownField(key, v)
	}
}

// ownField takes one of keyfold's own fields. All others are passed over.
func (d *profileReader) ownField(key []byte, v bsoncore.Value) error {
	p := &d.profile
	switch string(key) {
	case fieldMass:
		d.hasMass = true
		return readReal(v, &p.Mass)
	case fieldHistory:
		return readString(v, &p.History)
	case fieldModel:
		return d.modelName(v)
	case fieldLastID:
		return readString(v, &p.LastID)
	case fieldApplied:
		return readApplied(v, &p.Applied)
	case fieldFloor:
		return readDate(v, &p.Applied.Floor)
	case fieldMarks:
		return readMarks(v, &p.Marks)
	default:
		return d.shortField(key, v)
	}
}

// shortField keeps one field of the second vector. All others are passed over.
func (d *profileReader) shortField(key []byte, v bsoncore.Value) error {
	if d.short == nil && slices.Contains(shortFields, string(key)) {
		d.short = &shortValues{}
	}
	switch string(key) {
	case fieldShort:
		d.short.vector = v
	case fieldShortMass:
		d.short.mass = v
	case fieldShortHalfLife:
		d.short.halfLife = v
	case fieldShortVersion:
		d.short.version = v
	}
	return nil
}

// isOf reports whether the second vector is there and was written with this version.
func (s *shortValues) isOf(version int32) bool {
	var written int32
	return s != nil && s.vector.Type != 0 && readInt32(s.version, &written) == nil && written == version
}

// takeShort reads the second vector where the last write made it: another program may
// have folded events into the first one only, or mean something else by the fields.
func (d *profileReader) takeShort() (err error) {
	p, s := &d.profile, d.short
	d.short = nil // the profile keeps its reader, which must not keep the document
	if !s.isOf(p.Version) {
		return nil
	}
	var halfLife int32
	if p.Short.Vector, err = d.vector.vectorOf(s.vector, d.dimensions); err != nil {
		return fmt.Errorf("%s %w", fieldShort, err)
	}
	if err := readReal(s.mass, &p.Short.Mass); err != nil {
		return fmt.Errorf("%s %w", fieldShortMass, err)
	}
	if err := readInt32(s.halfLife, &halfLife); err != nil {
		return fmt.Errorf("%s %w", fieldShortHalfLife, err)
	}
	p.Short.HalfLife = time.Duration(halfLife) * time.Second
	switch {
	case len(p.Short.Vector) != len(p.Vector):
		return fmt.Errorf("has %d components, but its second vector %d", len(p.Vector), len(p.Short.Vector))
	case p.Short.Mass < 0:
		return fmt.Errorf("has mass_short %v, expected at least 0", p.Short.Mass)
	case p.Short.HalfLife <= 0:
		return fmt.Errorf("has short_half_life %d, expected at least 1", halfLife)
	}
	return nil
}

func readApplied(v bsoncore.Value, into *profile.Applied) error {
	b, err := binaryOf(v)
	if err != nil {
		return err
	}
	floor := into.Floor // of another field
	*into, err = profile.ReadApplied(b)
	into.Floor = floor
	return err
}

func readMarks(v bsoncore.Value, into *profile.Marks) error {
	b, err := binaryOf(v)
	if err != nil {
		return err
	}
	*into, err = profile.ReadMarks(b)
	return err
}

func (d *profileReader) lastType(v bsoncore.Value) error {
	var name string
	if err := readString(v, &name); err != nil {
		return err
	}
	d.profile.LastType = profile.ParseEventType(name)
	return nil
}

// modelName takes the model. Thousands of cached profiles share the configured
// one's string.
func (d *profileReader) modelName(v bsoncore.Value) error {
	err := readString(v, &d.profile.Model)
	if d.profile.Model == d.model {
		d.profile.Model = d.model
	}
	return err
}

// complete reports what a profile cannot be without.
func (d *profileReader) complete() error {
	p := &d.profile
	switch {
	case !d.hasUser:
		return errors.New("has no user_id")
	case p.Version < 1:
		return fmt.Errorf("has no version from 1 (%d): set it to 1", p.Version)
	case p.Vector == nil:
		return errors.New("has no embedding")
	case d.hasCount && int(d.count) != len(p.Vector):
		return fmt.Errorf("has %d components, but dimension_count %d", len(p.Vector), d.count)
	case !d.hasUpdated:
		return errors.New("has no last_updated")
	case p.Mass < 0:
		return fmt.Errorf("has mass %v, expected at least 0", p.Mass)
	case p.History == profile.Mass && !d.hasMass:
		return errors.New("has history mass, but no mass")
	}
	return d.takeShort()
}

// name says which document it is, as far as that is known.
func (d *profileReader) name() string {
	if !d.hasUser {
		return "a profile without a readable user_id"
	}
	return fmt.Sprintf("the profile of user %d", d.profile.UserID)
}
