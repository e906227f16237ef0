package mongotest

// validator is a collection's validation rule with its level and action.
type validator struct {
	rule     *filter
	moderate bool // documents that broke the rule already may go on doing so
	warn     bool // a document that breaks it is taken all the same
}

// parseValidator reads the options validator, validationLevel and
// validationAction; nil where nothing is to be checked.
func parseValidator(options document) (*validator, error) {
	source, ok := lookup(options, "validator").DocumentOK()
	if !ok || len(source) <= 5 {
		return nil, nil
	}
	rule, err := parseFilter(source)
	if err != nil {
		return nil, err
	}
	level, _ := lookup(options, "validationLevel").StringValueOK()
	action, _ := lookup(options, "validationAction").StringValueOK()
	switch level {
	case "off":
		return nil, nil
	case "", "strict", "moderate":
	default:
		return nil, fail(codeBadValue, "Enumeration value %q for field 'validationLevel' is not a valid value.", level)
	}
	if action != "" && action != "error" && action != "warn" {
		return nil, fail(codeBadValue, "Enumeration value %q for field 'validationAction' is not a valid value.", action)
	}
	return &validator{rule: rule, moderate: level == "moderate", warn: action == "warn"}, nil
}

// check refuses a document that breaks the rule. before is what it replaces,
// nil for a new one.
func (v *validator) check(before, doc document) error {
	if v == nil || v.warn || v.rule.matches(doc) {
		return nil
	}
	if v.moderate && before != nil && !v.rule.matches(before) {
		return nil
	}
	return fail(codeValidation, "Document failed validation")
}
