// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// Names of files with recordings.
const (
	// RecordingFile has the operations of the near end, and of a far end in the same process.
	RecordingFile = "recording.jsonl"
	// FarFile has the operations of a far end on another host.
	FarFile = "far.jsonl"
)

// startRecording records the operations of the QPs that dev gets from now on, if it is a ConnectX. The messages of
// checks have no secrets, so their data is recorded.
func startRecording(dev *verbs.Device) *mlx5dv.Recorder {
	d, err := mlx5dv.From(dev)
	if err != nil {
		return nil
	}
	return d.Record(mlx5dv.RecordOptions{Payload: true})
}

// record starts the recording of both ends.
func (t *trial) record() {
	t.target.recorder.Store(startRecording(t.dev))
	if t.peer.local == nil {
		t.call("Record", struct{}{}, &struct{}{})
	}
}

// save writes the recordings to the files of the check.
func (t *trial) save() {
	err := t.target.SaveRecording()
	if err == nil && t.target.Files != "" && t.peer.local == nil {
		var far []byte
		if err = t.peer.client.Call("Ends.Recording", struct{}{}, &far); err == nil && len(far) > 0 {
			err = os.WriteFile(filepath.Join(t.target.Files, FarFile), far, 0o644)
		}
	}
	if err != nil {
		t.note("no recording: %v", err)
	}
}

// SaveRecording writes the recording of the running check, if there is one, to RecordingFile in t.Files. It may be
// called concurrently with the check, which may hang.
func (t *Target) SaveRecording() error {
	r := t.recorder.Load()
	if r == nil || t.Files == "" {
		return nil
	}
	t.saving.Lock()
	defer t.saving.Unlock()
	f, err := os.Create(filepath.Join(t.Files, RecordingFile))
	if err != nil {
		return err
	}
	_, err = r.WriteTo(f)
	return errors.Join(err, f.Close())
}

// Record starts the recording of far ends that are opened later.
func (x *Ends) Record(struct{}, *struct{}) error {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.s.recorded != nil {
		return nil
	}
	dev, err := x.s.target.Host.Open(x.s.target.Device)
	if err != nil {
		return err
	}
	x.s.recorded, x.s.recorder = dev, startRecording(dev)
	return nil
}

// Recording returns the recording of the far ends, or nothing if their device is no ConnectX.
func (x *Ends) Recording(_ struct{}, text *[]byte) error {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.s.recorder == nil {
		return nil
	}
	var b bytes.Buffer
	_, err := x.s.recorder.WriteTo(&b)
	*text = b.Bytes()
	return err
}
