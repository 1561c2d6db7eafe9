package v1_test

import (
	"reflect"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
)

func TestAuthorSurvivesItsAnnotation(t *testing.T) {
	for _, want := range []crdv1.Author{
		{User: "ada"},
		{User: `o"brien`, Groups: []string{"system:authenticated", "shop,team"}},
	} {
		got, known, err := crdv1.AuthorOf(map[string]string{crdv1.AnnotationAuthor: want.String()})
		if err != nil || !known || !reflect.DeepEqual(got, want) {
			t.Errorf("%v came back as %v, known %v, error %v", want, got, known, err)
		}
	}
}

func TestAuthorIsUnknownWithoutAUser(t *testing.T) {
	for value, wrong := range map[string]bool{"": false, "{": true, "{}": true, `{"groups":["a"]}`: true, `["ada"]`: true} {
		_, known, err := crdv1.AuthorOf(map[string]string{crdv1.AnnotationAuthor: value})
		if known || (err != nil) != wrong {
			t.Errorf("%q: known %v, error %v", value, known, err)
		}
	}
}
