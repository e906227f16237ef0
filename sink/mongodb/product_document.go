package mongodb

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Fields of product_embeddings beside those that profiles have too.
const (
	fieldProduct  = "product_id"
	fieldName     = "product_name"
	fieldCategory = "category"
)

// appendProduct appends the update that sets all fields, and created_at where
// the product is new.
func (c *codec) appendProduct(dst []byte, p *profile.Product, now engine.Millis) []byte {
	t := c.vector
	if len(p.Vector) != c.dimensions {
		t = newVectorTemplate(len(p.Vector)) // seldom: such a product cannot be folded
	}
	start, dst := bsoncore.AppendDocumentStart(dst)
	set, dst := bsoncore.AppendDocumentElementStart(dst, "$set")
	dst = bsoncore.AppendStringElement(dst, fieldName, p.Name)
	dst = bsoncore.AppendStringElement(dst, fieldCategory, p.Category)
	dst = bsoncore.AppendStringElement(dst, fieldModel, p.Model)
	dst = appendDate(dst, fieldWrittenAt, now)
	dst = bsoncore.AppendInt32Element(dst, fieldDimensions, int32(len(p.Vector)))
	dst = bsoncore.AppendHeader(dst, bsoncore.TypeArray, fieldEmbedding)
	dst = endDocument(appendVector(dst, t, p.Vector), set)
	fresh, dst := bsoncore.AppendDocumentElementStart(dst, "$setOnInsert")
	dst = endDocument(appendDate(dst, fieldCreatedAt, now), fresh)
	return endDocument(dst, start)
}

// product reads a document. Only the id has to be readable: what else is not
// there, or of another type, is left empty, as a name is for people only and a
// product without a vector is the catalogue's to report.
func (c *codec) product(doc []byte) (p profile.Product, err error) {
	hasID, otherModel := false, false
	err = eachField(doc, func(key []byte, v bsoncore.Value) error {
		switch string(key) {
		case fieldProduct:
			hasID = true
			return readInt32(v, &p.ID)
		case fieldName:
			_ = readString(v, &p.Name)
		case fieldCategory:
			_ = readString(v, &p.Category)
		case fieldModel:
			otherModel = readString(v, &p.Model) != nil
		case fieldEmbedding:
			p.Vector = c.productVector(v)
		}
		return nil
	})
	if err == nil && !hasID {
		err = fmt.Errorf("has no %s", fieldProduct)
	}
	if err != nil {
		return p, engine.ConfigurationError(reasonCorrupt, fmt.Errorf(
			"a document of %s %w: repair or delete it, and import the product again", collectionProducts, err))
	}
	if otherModel {
		p.Vector = nil // not to be taken for one of the configured model
	}
	return p, nil
}

// productVector rounds the stored doubles to what products are made of, or
// returns nil where they cannot be read. NaN and infinities stay: that they are
// there is what the catalogue has to say of such a product.
func (c *codec) productVector(v bsoncore.Value) []float32 {
	wide, err := c.vector.vectorOf(v, c.dimensions)
	if array, ok := v.ArrayOK(); ok && err != nil {
		wide, err = scanVector(array, anyNumber)
	}
	if err != nil || len(wide) == 0 {
		return nil
	}
	vector := make([]float32, len(wide))
	for i, x := range wide {
		vector[i] = float32(x)
	}
	return vector
}
