package mongotest

// parseValidator reads the option validator; nil where nothing is to be checked.
func parseValidator(options document) (*filter, error) {
	source, ok := lookup(options, "validator").DocumentOK()
	if !ok || len(source) <= len(emptyDocument) {
		return nil, nil
	}
	for name, known := range map[string]string{"validationLevel": "strict", "validationAction": "error"} {
		if v, ok := lookup(options, name).StringValueOK(); ok && v != known {
			return nil, fail(codeBadValue, "mongotest: %s '%s' is not supported", name, v)
		}
	}
	return parseFilter(source)
}
