#!/bin/bash
# The grants for the contracts of agentdojo/: every read, with any arguments, for one account and one day. Only two web pages: those that
# colleagues named in the channels, because an address can carry data to its site. Run it with the account: agentdojo-grants.sh ACCOUNT
#
# A grant fixes the length of a list, so a tool that takes one has a line for each length: one to five hotels or restaurants, or all ten
# restaurants of a city; one to three companies.
set -euo pipefail
account=$1
grant() { threegate grant tool "$@" --by "$account" --max-uses 10000 --expires 24h; }

grant workspace get_sent_emails
grant workspace get_received_emails
grant workspace get_draft_emails
grant workspace get_current_day
grant workspace list_files
grant workspace search_contacts_by_name --any query
grant workspace search_contacts_by_email --any query
grant workspace search_files --any query
grant workspace search_files_by_filename --any filename
grant workspace get_file_by_id --any file_id
grant workspace get_day_calendar_events --any day
grant workspace search_emails --any query --absent sender
grant workspace search_emails --any query --any sender
grant workspace search_calendar_events --any query --absent date
grant workspace search_calendar_events --any query --any date

grant travel get_user_information
grant travel get_all_hotels_in_city --any city
grant travel get_all_restaurants_in_city --any city
grant travel get_all_car_rental_companies_in_city --any city
grant travel get_hotels_address --any hotel_name
grant travel get_flight_information --any departure_city --any arrival_city
grant travel get_day_calendar_events --any day
grant travel search_calendar_events --any query --absent date
grant travel search_calendar_events --any query --any date
grant travel get_hotels_prices --any hotel_names.0
grant travel get_hotels_prices --any=hotel_names.{0..1}
grant travel get_hotels_prices --any=hotel_names.{0..2}
grant travel get_hotels_prices --any=hotel_names.{0..3}
grant travel get_hotels_prices --any=hotel_names.{0..4}
grant travel get_rating_reviews_for_hotels --any hotel_names.0
grant travel get_rating_reviews_for_hotels --any=hotel_names.{0..1}
grant travel get_rating_reviews_for_hotels --any=hotel_names.{0..2}
grant travel get_rating_reviews_for_hotels --any=hotel_names.{0..3}
grant travel get_rating_reviews_for_hotels --any=hotel_names.{0..4}
grant travel get_cuisine_type_for_restaurants --any restaurant_names.0
grant travel get_cuisine_type_for_restaurants --any=restaurant_names.{0..1}
grant travel get_cuisine_type_for_restaurants --any=restaurant_names.{0..2}
grant travel get_cuisine_type_for_restaurants --any=restaurant_names.{0..3}
grant travel get_cuisine_type_for_restaurants --any=restaurant_names.{0..4}
grant travel get_cuisine_type_for_restaurants --any=restaurant_names.{0..9}
grant travel get_restaurants_address --any restaurant_names.0
grant travel get_restaurants_address --any=restaurant_names.{0..1}
grant travel get_restaurants_address --any=restaurant_names.{0..2}
grant travel get_restaurants_address --any=restaurant_names.{0..3}
grant travel get_restaurants_address --any=restaurant_names.{0..4}
grant travel get_restaurants_address --any=restaurant_names.{0..9}
grant travel get_rating_reviews_for_restaurants --any restaurant_names.0
grant travel get_rating_reviews_for_restaurants --any=restaurant_names.{0..1}
grant travel get_rating_reviews_for_restaurants --any=restaurant_names.{0..2}
grant travel get_rating_reviews_for_restaurants --any=restaurant_names.{0..3}
grant travel get_rating_reviews_for_restaurants --any=restaurant_names.{0..4}
grant travel get_rating_reviews_for_restaurants --any=restaurant_names.{0..9}
grant travel get_dietary_restrictions_for_all_restaurants --any restaurant_names.0
grant travel get_dietary_restrictions_for_all_restaurants --any=restaurant_names.{0..1}
grant travel get_dietary_restrictions_for_all_restaurants --any=restaurant_names.{0..2}
grant travel get_dietary_restrictions_for_all_restaurants --any=restaurant_names.{0..3}
grant travel get_dietary_restrictions_for_all_restaurants --any=restaurant_names.{0..4}
grant travel get_dietary_restrictions_for_all_restaurants --any=restaurant_names.{0..9}
grant travel get_contact_information_for_restaurants --any restaurant_names.0
grant travel get_contact_information_for_restaurants --any=restaurant_names.{0..1}
grant travel get_contact_information_for_restaurants --any=restaurant_names.{0..2}
grant travel get_contact_information_for_restaurants --any=restaurant_names.{0..3}
grant travel get_contact_information_for_restaurants --any=restaurant_names.{0..4}
grant travel get_contact_information_for_restaurants --any=restaurant_names.{0..9}
grant travel get_price_for_restaurants --any restaurant_names.0
grant travel get_price_for_restaurants --any=restaurant_names.{0..1}
grant travel get_price_for_restaurants --any=restaurant_names.{0..2}
grant travel get_price_for_restaurants --any=restaurant_names.{0..3}
grant travel get_price_for_restaurants --any=restaurant_names.{0..4}
grant travel get_price_for_restaurants --any=restaurant_names.{0..9}
grant travel check_restaurant_opening_hours --any restaurant_names.0
grant travel check_restaurant_opening_hours --any=restaurant_names.{0..1}
grant travel check_restaurant_opening_hours --any=restaurant_names.{0..2}
grant travel check_restaurant_opening_hours --any=restaurant_names.{0..3}
grant travel check_restaurant_opening_hours --any=restaurant_names.{0..4}
grant travel check_restaurant_opening_hours --any=restaurant_names.{0..9}
grant travel get_car_types_available --any company_name.0
grant travel get_car_types_available --any=company_name.{0..1}
grant travel get_car_types_available --any=company_name.{0..2}
grant travel get_rating_reviews_for_car_rental --any company_name.0
grant travel get_rating_reviews_for_car_rental --any=company_name.{0..1}
grant travel get_rating_reviews_for_car_rental --any=company_name.{0..2}
grant travel get_car_fuel_options --any company_name.0
grant travel get_car_fuel_options --any=company_name.{0..1}
grant travel get_car_fuel_options --any=company_name.{0..2}
grant travel get_car_rental_address --any company_name.0
grant travel get_car_rental_address --any=company_name.{0..1}
grant travel get_car_rental_address --any=company_name.{0..2}
grant travel get_car_price_per_day --any company_name.0
grant travel get_car_price_per_day --any=company_name.{0..1}
grant travel get_car_price_per_day --any=company_name.{0..2}

grant banking get_iban
grant banking get_balance
grant banking get_scheduled_transactions
grant banking get_user_info
grant banking get_most_recent_transactions --any n
grant banking get_most_recent_transactions --absent n
grant banking read_file --any file_path

grant slack get_channels
grant slack read_channel_messages --any channel
grant slack read_inbox --any user
grant slack get_users_in_channel --any channel
grant slack get_webpage --where 'url one_of ["www.informations.com", "www.restaurant-zurich.com"]'
