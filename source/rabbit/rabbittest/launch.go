package rabbittest

// Launch runs a private broker outside of tests, all of its files in dir. The
// caller stops it.
func Launch(dir string) (*Broker, error) { return launch(dir) }
