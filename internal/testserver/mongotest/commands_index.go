package mongotest

import "bytes"

func createIndexes(r *request) error {
	namespace, err := r.namespace()
	if err != nil {
		return err
	}
	specs, err := r.statements("indexes")
	if err != nil {
		return err
	}
	wanted := make([]*index, len(specs))
	for i, spec := range specs {
		if wanted[i], err = parseIndex(spec); err != nil {
			return err
		}
	}
	c := r.store.ensure(namespace)
	for _, x := range wanted {
		known, err := c.knownIndex(x)
		if err != nil {
			return err
		}
		if known {
			continue
		}
		if err := c.addIndex(x); err != nil {
			return err
		}
		r.store.journal.createIndex(namespace, x)
	}
	return nil
}

// knownIndex reports whether the collection has this index. Another one of its
// name, or on its field, is an error.
func (c *collection) knownIndex(x *index) (bool, error) {
	for _, y := range c.indexes {
		same := y.field == x.field && compare(y.direction, x.direction) == 0 && bytes.Equal(y.rest, x.rest)
		switch {
		case same && y.name == "_id_":
			return true, nil
		case y.name == x.name && (!same || y.unique != x.unique):
			return false, fail(codeIndexKeyConflict, "An existing index has the same name as the requested index. "+
				"Requested index: %s, existing index: %s", x.spec(), y.spec())
		case y.name == x.name:
			return true, nil
		case same:
			return false, fail(codeIndexOptionsConflict, "Index already exists with a different name: %s", y.name)
		}
	}
	return false, nil
}

// addIndex builds an index over what is there.
func (c *collection) addIndex(x *index) error {
	for _, r := range c.rows {
		if r == nil || r.raw == nil {
			continue
		}
		if err := x.admit(c, &record{}, r.raw); err != nil {
			return err
		}
		x.move(r, nil, r.raw)
	}
	c.indexes = append(c.indexes, x)
	return nil
}

func listIndexes(r *request) error {
	c, err := r.existing()
	if err != nil {
		return err
	}
	docs := make([]document, len(c.indexes))
	for i, x := range c.indexes {
		docs[i] = x.spec()
	}
	return r.answerCursor(c.namespace, docs)
}
