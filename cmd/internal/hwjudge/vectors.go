// SPDX-License-Identifier: Apache-2.0

package hwjudge

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Vectors returns the recordings as vectors for the tests of provider/mlx5, by names of files. They omit the QPs that
// the tests cannot replay. A recording without a completion of another QP has no vectors.
func (j *Judgment) Vectors() map[string][]byte {
	files := map[string][]byte{}
	for _, r := range j.recordings {
		if v := r.vectors(); v != nil {
			// No name in the archive has a plus sign (hwreport.ReadArchive), so the names stay different.
			files[strings.ReplaceAll(r.name, "/", "+")] = v
		}
	}
	return files
}

// vectors returns the lines of the QPs that can be replayed, or nil if they have no completion.
func (r *recording) vectors() []byte {
	without := r.omitted()
	var b bytes.Buffer
	for _, text := range r.head {
		b.Write(append(slices.Clone(text), '\n'))
	}
	completions := 0
	for i := range r.lines {
		l := &r.lines[i]
		id := ""
		switch l.T {
		case "qp":
			id = l.ID
		case "send":
			id = l.QP
		case "recv", "reposted":
			id = l.On
		case "poll":
			id = l.CQEs[0].Of
		}
		if _, ok := without[id]; ok {
			continue
		}
		if l.T == "poll" && id != "" {
			completions++
		}
		b.Write(append(slices.Clone(l.text), '\n'))
	}
	if completions == 0 {
		return nil
	}
	return b.Bytes()
}

// WriteVectors writes the vectors to new files in a directory, which must exist. It does not replace files.
func (j *Judgment) WriteVectors(dir string) (names []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files := j.Vectors()
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if err := writeNew(root, name, files[name]); err != nil {
			return names[:i], fmt.Errorf("write vectors: %w", err)
		}
	}
	return names, nil
}

func writeNew(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
