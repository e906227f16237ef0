package stream

import "keyfold/engine/cure"

// uriSetting has the URL of the streams.
const uriSetting cure.Name = "stream.URI"
