// SPDX-License-Identifier: Apache-2.0

package hwreport

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// Limits of an archive that ReadArchive accepts. A report of a run with all checks and many failures is far below them.
const (
	maxFiles   = 1000
	maxFile    = 64 << 20 // bytes
	maxArchive = 512 << 20
)

// fileName matches the names of files in an archive. None of them leaves a directory or has a special meaning.
var fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}){0,3}$`)

// ReadArchive reads an archive from an unknown sender, and returns the report and all files by their names. It refuses an
// archive that exceeds the limits on files and bytes, or has anything but regular files with simple and different names. It writes
// no files. The report and the files may still contain any text.
func ReadArchive(in io.Reader) (*Report, map[string][]byte, error) {
	r, files, err := readArchive(in)
	if err != nil {
		return nil, nil, fmt.Errorf("read an archive of rdmahw: %w", err)
	}
	return r, files, nil
}

func readArchive(in io.Reader) (*Report, map[string][]byte, error) {
	zip, err := gzip.NewReader(in)
	if err != nil {
		return nil, nil, err
	}
	zip.Multistream(false)
	files := map[string][]byte{}
	archive := tar.NewReader(&capped{zip, maxArchive})
	for left := int64(maxArchive); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		// A sparse file can have more bytes than the archive.
		if left -= max(h.Size, 0); left < 0 || h.Size > maxFile || len(files) == maxFiles {
			return nil, nil, errors.New("too many files or bytes")
		}
		if h.Typeflag != tar.TypeReg || !fileName.MatchString(h.Name) {
			return nil, nil, fmt.Errorf("%q is not a regular file with a simple name", h.Name)
		}
		if _, ok := files[h.Name]; ok {
			return nil, nil, fmt.Errorf("two files %s", h.Name)
		}
		var data bytes.Buffer
		if _, err := io.Copy(&data, archive); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		files[h.Name] = data.Bytes()
	}
	text, ok := files[JSONFile]
	if !ok {
		return nil, nil, errors.New("no " + JSONFile)
	}
	r, err := Read(bytes.NewReader(text))
	return r, files, err
}

// capped returns an error after a number of bytes.
type capped struct {
	in   io.Reader
	left int64
}

func (c *capped) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errors.New("too many bytes")
	}
	n, err := c.in.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, err
}
