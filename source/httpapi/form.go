package httpapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
)

// The content types of forms.
const (
	typeForm      = "application/x-www-form-urlencoded"
	typeMultipart = "multipart/form-data"
)

// Form reads the body of a form of at most limit bytes. It takes files for fields.
func (r *Request) Form(limit int64) (url.Values, *Answer) {
	media, refused := typeOf(r.Request, []string{typeForm, typeMultipart})
	if refused != nil {
		return nil, refused
	}
	body, refused := r.readUpTo(limit)
	if refused != nil {
		return nil, refused
	}
	var fields url.Values
	var err error
	if media == typeForm {
		fields, err = url.ParseQuery(string(body))
	} else {
		fields, err = parts(r.Header.Get("Content-Type"), body)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "bad_form", "the body is no form of its Content-Type; send it again")
	}
	return fields, nil
}

// parts reads the fields of a multipart form.
func parts(contentType string, body []byte) (url.Values, error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || parameters["boundary"] == "" {
		return nil, http.ErrMissingBoundary
	}
	fields := url.Values{}
	reader := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return fields, nil
		}
		if err != nil {
			return nil, err
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		fields.Add(part.FormName(), string(value))
	}
}
