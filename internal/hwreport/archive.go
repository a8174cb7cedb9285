// SPDX-License-Identifier: Apache-2.0

package hwreport

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"slices"
)

// Names of files in an archive.
const (
	JSONFile = "report.json"
	TextFile = "report.txt"
)

// WriteArchive writes a compressed archive that contains the report as JSON and as text, and files by
// their names.
func (r *Report) WriteArchive(out io.Writer, files map[string][]byte) error {
	asJSON, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	all := map[string][]byte{JSONFile: append(asJSON, '\n'), TextFile: []byte(r.Text())}
	maps.Copy(all, files)
	zip := gzip.NewWriter(out)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(all[name])), ModTime: r.Date}); err != nil {
			return err
		}
		if _, err := archive.Write(all[name]); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}
