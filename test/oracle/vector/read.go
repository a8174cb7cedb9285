// SPDX-License-Identifier: Apache-2.0

package vector

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Open opens a file of vectors, compressed by gzip or not.
func Open(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	b := bufio.NewReader(f)
	if magic, _ := b.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return file{b, f}, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return file{z, f}, nil
}

type file struct {
	io.Reader
	io.Closer
}

// ReadFile reads a file of vectors.
func ReadFile(name string) (*File, error) {
	r, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := Read(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// Read reads vectors. An unknown member is an error, because no test would check it.
func Read(r io.Reader) (*File, error) {
	var f File
	d := json.NewDecoder(bufio.NewReader(r))
	d.DisallowUnknownFields()
	for line := 1; ; line++ {
		rec := &Record{Line: line}
		switch err := d.Decode(rec); {
		case err == io.EOF && line > 1:
			return &f, nil
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", line, err)
		case (rec.Type == "file") != (line == 1):
			return nil, fmt.Errorf("line %d: unexpected record %q", line, rec.Type)
		case line == 1 && rec.Format != Format:
			return nil, fmt.Errorf("line 1: format %d, want %d", rec.Format, Format)
		case line == 1:
			f.Head = rec
		case rec.Type == "open":
			f.Sessions = append(f.Sessions, &Session{Records: []*Record{rec}})
		case len(f.Sessions) == 0:
			return nil, fmt.Errorf("line %d: record %q before a session", line, rec.Type)
		default:
			s := f.Sessions[len(f.Sessions)-1]
			s.Records = append(s.Records, rec)
		}
	}
}
