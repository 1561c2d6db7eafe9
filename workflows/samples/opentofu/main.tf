terraform {
  backend "kubernetes" {
    in_cluster_config = true
    namespace         = "shop"
  }
}

variable "name" {}
variable "customers" {}

resource "terraform_data" "database" {
  input = var.name
  provisioner "local-exec" {
    command = "psql -qc 'CREATE DATABASE \"${self.input}\"'"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "psql -qc 'DROP DATABASE IF EXISTS \"${self.input}\" WITH (FORCE)'"
  }
}

resource "terraform_data" "customers" {
  input = terraform_data.database.output
  provisioner "local-exec" {
    environment = { PGDATABASE = self.input, NAMES = var.customers }
    command     = "psql -qc \"CREATE TABLE customers AS SELECT unnest(string_to_array('$NAMES', ',')) AS name\""
  }
}
